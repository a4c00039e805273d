// Opens a small store in WORK/store after having made its own surroundings hostile, uses it, and
// says on stdout what happened.
//
//   surroundings_child WORK plain|no-uring|nobody|full-disk|threads=N|addresses=N|files=N
//
//   no-uring   io_uring_setup is denied by seccomp
//   nobody     an unprivileged user who may lock 8 MiB of memory
//   threads=N    an unprivileged user who may have N threads
//   addresses=N  N MiB of addresses more than the process has
//   files=N      N open files
//   full-disk  WORK/store/disk is a file system of 8 MiB, seen by this process alone
//
// Exit code 0: it could be tried; the lines say how it went. 3: the system refuses these
// surroundings.
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <string>
#include <string_view>
#include <system_error>

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tests/crash/small_store.h"

namespace holdfast::testing {
namespace {

constexpr int kRefused = 3;
constexpr uint32_t kBlocks = 32;

bool DenyIoUring() {
  sock_filter program[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_io_uring_setup, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  sock_fprog filter = {.len = std::size(program), .filter = program};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &filter) == 0;
}

bool BecomeNobody() {
  constexpr uid_t kNobody = 65534;
  const rlimit limit = {8 << 20, 8 << 20};
  return setrlimit(RLIMIT_MEMLOCK, &limit) == 0 && setgid(kNobody) == 0 && setuid(kNobody) == 0;
}

bool Limit(decltype(RLIMIT_AS) resource, uint64_t most) {
  const rlimit limit = {most, most};
  return setrlimit(resource, &limit) == 0;
}

uint64_t AddressBytes() {
  uint64_t pages = 0;
  FILE* file = std::fopen("/proc/self/statm", "re");
  if (file == nullptr || std::fscanf(file, "%lu", &pages) != 1) return 0;
  std::fclose(file);
  return pages * kPageBytes;
}

// "threads=N" and its like.
bool MakeLimits(std::string_view mode) {
  const size_t at = mode.find('=');
  if (at == std::string_view::npos) return false;
  const uint64_t number = std::strtoull(mode.data() + at + 1, nullptr, 10);
  const std::string_view what = mode.substr(0, at);
  if (what == "threads") return Limit(RLIMIT_NPROC, number) && BecomeNobody();
  if (what == "addresses") return Limit(RLIMIT_AS, AddressBytes() + (number << 20));
  return what == "files" && Limit(RLIMIT_NOFILE, number);
}

bool MountSmallDisk() {
  if (mkdir("store", 0700) != 0 && errno != EEXIST) return false;
  if (mkdir("store/disk", 0700) != 0 && errno != EEXIST) return false;
  return unshare(CLONE_NEWNS) == 0 &&
         mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
         mount("holdfast-test", "store/disk", "tmpfs", 0, "size=8m") == 0;
}

void Report(SmallStore& store) {
  const StoreStats stats = store->Stats();
  std::printf("engine: %s\n", stats.tiers[2].engine.c_str());
  std::printf("disk errno: %d\n", stats.tiers[3].last_errno);
}

// More than the file system holds, little by little; ddr takes every one.
void FillDisk(SmallStore& store) {
  constexpr uint32_t kTooMany = 200;
  size_t kept = 0;
  size_t served = 0;
  for (uint32_t i = 0; i < kTooMany; ++i) {
    kept += store.Put(i, i + 1);
    served += store.Fetch(i, i + 1);
    if (i % 40 == 39)
      store.Drain(std::chrono::milliseconds(200)).IgnoreError("a full disk takes nothing");
  }
  // One that waited too long for room is declined.
  std::printf("nearly all: %s\nserved what was kept: %s\n",
              kept >= kTooMany - kTooMany / 20 ? "yes" : "no", served == kept ? "yes" : "no");
}

int Run(const std::string& work, std::string_view mode) {
  if (chdir(work.c_str()) != 0) return 2;
  const bool made = mode == "no-uring"    ? DenyIoUring()
                    : mode == "nobody"    ? BecomeNobody()
                    : mode == "full-disk" ? MountSmallDisk()
                    : mode == "plain"     ? true
                                          : MakeLimits(mode);
  if (!made) {
    std::printf("refused: %s\n", std::generic_category().message(errno).c_str());
    return kRefused;
  }
  SmallStore store("store");
  if (mode == "full-disk") {
    store.options.flash_bytes = 0;
    store.options.disk_bytes = 64 << 20;
    store.options.hold_classes[1].budget_share = 0.75;
  }
  const Status opened = store.Open();
  std::printf("open: %s\n", opened.ToString().c_str());
  if (opened.ok() && mode == "full-disk") {
    FillDisk(store);
  } else if (opened.ok()) {
    std::printf("kept: %zu of %u\n", store.Put(0, kBlocks), kBlocks);
    std::printf("drain: %s\n", store.Drain().ToString().c_str());
    std::printf("served: %zu of %u\n", store.Fetch(0, kBlocks), kBlocks);
  }
  if (opened.ok()) Report(store);
  store.Close();
  for (const std::string& line : store.lines()) std::printf("log: %s\n", line.c_str());
  std::printf("wrong: %zu\n", store.wrong());
  return 0;
}

}  // namespace
}  // namespace holdfast::testing

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  const int code = holdfast::testing::Run(argv[1], argv[2]);
  std::fflush(stdout);
  return code;
}

// What OpenIoEngine does about files, options and systems that are not as it would have them.

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kvstore/io_engine.h"
#include "tests/testing/io_test_kit.h"
#include "tests/testing/start_thread.h"

namespace holdfast {
namespace {

using testing::IoMemory;
using testing::WaitableRequest;

constexpr uint64_t kMiB = 1 << 20;

Result<std::unique_ptr<IoEngine>> Open(const std::string& path, uint64_t capacity_bytes,
                                       IoEngineKind kind, std::string* note = nullptr) {
  return OpenIoEngine({.path = path,
                       .capacity_bytes = capacity_bytes,
                       .kind = kind,
                       .depth = 16,
                       .start_thread = testing::StartThread},
                      note);
}

int Transfer(IoEngine* engine, IoKind kind, uint64_t offset_bytes, const IoMemory& memory) {
  WaitableRequest request(kind, offset_bytes, {memory.extent()});
  engine->Submit(request.get());
  request.Wait();
  return request.error();
}

bool Mentions(const Status& status, std::string_view word) {
  return status.message().find(word) != std::string_view::npos;
}

class IoOpen : public ::testing::TestWithParam<IoEngineKind> {
 protected:
  testing::IoDirectory directory_;
  const std::string path_ = directory_.File("data");
};

INSTANTIATE_TEST_SUITE_P(Kinds, IoOpen,
                         ::testing::Values(IoEngineKind::kUring, IoEngineKind::kPread),
                         [](const auto& parameter) {
                           return parameter.param == IoEngineKind::kUring ? "Uring" : "Pread";
                         });

TEST_P(IoOpen, ImpossibleOptionsAreNamedAndMakeNoFile) {
  const IoEngineOptions good = {.path = path_,
                                .capacity_bytes = kMiB,
                                .kind = GetParam(),
                                .start_thread = testing::StartThread};
  std::vector<std::pair<const char*, IoEngineOptions>> bad(8, {"", good});
  bad[0].first = "path", bad[0].second.path = "";
  bad[1].first = "capacity_bytes", bad[1].second.capacity_bytes = 0;
  bad[2].first = "capacity_bytes", bad[2].second.capacity_bytes = kMiB + 512;
  bad[3].first = "threads", bad[3].second.threads = 0;
  bad[4].first = "threads", bad[4].second.threads = 65;
  bad[5].first = "depth", bad[5].second.depth = 1;
  bad[6].first = "depth", bad[6].second.depth = 5000;
  bad[7].first = "start_thread", bad[7].second.start_thread = nullptr;
  for (const auto& [word, options] : bad) {
    const auto engine = OpenIoEngine(options, nullptr);
    ASSERT_FALSE(engine.has_value()) << word;
    EXPECT_EQ(engine.error().code(), StatusCode::kInvalidArgument);
    EXPECT_TRUE(Mentions(engine.error(), word)) << engine.error().ToString();
  }
  EXPECT_FALSE(std::filesystem::exists(path_));
}

TEST_P(IoOpen, WhatIsNoFileIsRefused) {
  for (const std::string& path : {directory_.path(), std::string("/dev/null")}) {
    const auto engine = Open(path, kMiB, GetParam());
    ASSERT_FALSE(engine.has_value());
    EXPECT_EQ(engine.error().code(), StatusCode::kInvalidArgument);
    EXPECT_TRUE(Mentions(engine.error(), path)) << engine.error().ToString();
  }
  const auto engine = Open(directory_.File("absent/data"), kMiB, GetParam());
  ASSERT_FALSE(engine.has_value());
  EXPECT_EQ(engine.error().os_errno(), ENOENT);
}

TEST_P(IoOpen, NewFileIsAllocatedWhole) {
  const auto engine = Open(path_, 8 * kMiB, GetParam());
  ASSERT_TRUE(engine.has_value()) << engine.error().ToString();
  struct stat info {};
  ASSERT_EQ(stat(path_.c_str(), &info), 0);
  EXPECT_EQ(info.st_size, static_cast<off_t>(8 * kMiB));
  EXPECT_GE(info.st_blocks * 512, static_cast<off_t>(8 * kMiB));
  EXPECT_EQ(info.st_mode & 0777, 0600u);
}

TEST_P(IoOpen, LongerFileKeepsItsLengthAndShorterOneItsBytes) {
  IoMemory from(kMiB);
  from.Fill(1);
  {
    auto engine = Open(path_, 4 * kMiB, GetParam());
    ASSERT_TRUE(engine.has_value()) << engine.error().ToString();
    ASSERT_EQ(Transfer(engine->get(), IoKind::kWrite, kMiB, from), 0);
  }
  for (const uint64_t capacity : {2 * kMiB, 8 * kMiB}) {
    auto engine = Open(path_, capacity, GetParam());
    ASSERT_TRUE(engine.has_value()) << engine.error().ToString();
    EXPECT_EQ((*engine)->capacity_bytes(), capacity);
    EXPECT_EQ(std::filesystem::file_size(path_), std::max(capacity, 4 * kMiB));
    IoMemory to(kMiB);
    EXPECT_EQ(Transfer(engine->get(), IoKind::kRead, kMiB, to), 0);
    EXPECT_TRUE(from == to);
    EXPECT_EQ(Transfer(engine->get(), IoKind::kRead, capacity, to), ENODATA);
  }
}

TEST_P(IoOpen, FileCutShortUnderneathIsNoDataNotZeros) {
  auto engine = Open(path_, 8 * kMiB, GetParam());
  ASSERT_TRUE(engine.has_value()) << engine.error().ToString();
  ASSERT_EQ(truncate(path_.c_str(), 4 * kMiB), 0);
  IoMemory memory(2 * kMiB);
  EXPECT_EQ(Transfer(engine->get(), IoKind::kRead, 2 * kMiB, memory), 0);
  EXPECT_EQ(Transfer(engine->get(), IoKind::kRead, 3 * kMiB, memory), ENODATA);
  EXPECT_EQ(Transfer(engine->get(), IoKind::kRead, 5 * kMiB, memory), ENODATA);
}

TEST_P(IoOpen, NoSpaceSaysWantedAndFreeAndLeavesNoFile) {
  constexpr uint64_t kWanted = uint64_t{1} << 43;
  const auto engine = Open(path_, kWanted, GetParam());
  ASSERT_FALSE(engine.has_value());
  EXPECT_EQ(engine.error().code(), StatusCode::kIoError);
  EXPECT_EQ(engine.error().os_errno(), ENOSPC);
  EXPECT_TRUE(Mentions(engine.error(), std::to_string(kWanted))) << engine.error().ToString();
  EXPECT_TRUE(Mentions(engine.error(), "free")) << engine.error().ToString();
  EXPECT_FALSE(std::filesystem::exists(path_));
}

TEST_P(IoOpen, NoSpaceLeavesAnOlderFileAsItWas) {
  { ASSERT_TRUE(Open(path_, kMiB, GetParam()).has_value()); }
  const auto engine = Open(path_, uint64_t{1} << 43, GetParam());
  ASSERT_FALSE(engine.has_value());
  EXPECT_EQ(engine.error().os_errno(), ENOSPC);
  EXPECT_EQ(std::filesystem::file_size(path_), kMiB);
}

TEST_P(IoOpen, RefusedDirectAccessNamesThePathAndTheWayOut) {
  const std::string path = "/proc/self/comm";  // a regular file that knows no O_DIRECT
  const auto engine = Open(path, kPageBytes, GetParam());
  ASSERT_FALSE(engine.has_value());
  EXPECT_EQ(engine.error().code(), StatusCode::kUnimplemented);
  EXPECT_TRUE(Mentions(engine.error(), path)) << engine.error().ToString();
  EXPECT_TRUE(Mentions(engine.error(), "buffered")) << engine.error().ToString();
}

TEST_P(IoOpen, BufferedModeNeedsNoAlignment) {
  auto engine = OpenIoEngine({.path = path_,
                              .capacity_bytes = kMiB,
                              .kind = GetParam(),
                              .buffered = true,
                              .start_thread = testing::StartThread},
                             nullptr);
  ASSERT_TRUE(engine.has_value()) << engine.error().ToString();
  EXPECT_FALSE((*engine)->direct());
  IoMemory from(777);
  from.Fill(1);
  IoMemory to(777);
  EXPECT_EQ(Transfer(engine->get(), IoKind::kWrite, 333, from), 0);
  EXPECT_EQ(Transfer(engine->get(), IoKind::kRead, 333, to), 0);
  EXPECT_TRUE(from == to);
}

// The rest changes its process: it runs in a child, which ends with what `body` returns.
int RunInChild(const std::function<int()>& body) {
  std::fflush(nullptr);
  const pid_t child = fork();
  if (child == 0) {
    const int code = body();
    std::fflush(nullptr);
    _exit(code);
  }
  int status = 0;
  if (child < 0 || waitpid(child, &status, 0) != child || !WIFEXITED(status)) return -1;
  return WEXITSTATUS(status);
}

// The child's check: says what is wrong and where.
#define CHILD_EXPECT(condition)                                                \
  do {                                                                         \
    if (!(condition)) {                                                        \
      std::fprintf(stderr, "in a child, line %d: %s\n", __LINE__, #condition); \
      return 1;                                                                \
    }                                                                          \
  } while (false)

// From here on `call` fails with EPERM in every thread of the process.
bool DenySystemCall(unsigned call) {
  sock_filter program[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  sock_fprog filter = {.len = std::size(program), .filter = program};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &filter) == 0;
}

TEST(IoWithoutUring, AutoFallsBackWithANoteAndTheNamedEngineFails) {
  const testing::IoDirectory directory;
  const std::string path = directory.File("data");
  const int code = RunInChild([&] {
    CHILD_EXPECT(DenySystemCall(SYS_io_uring_setup));
    const auto named = Open(path, kMiB, IoEngineKind::kUring);
    CHILD_EXPECT(!named.has_value());
    CHILD_EXPECT(named.error().code() == StatusCode::kUnimplemented);
    CHILD_EXPECT(Mentions(named.error(), "io_uring_setup: Operation not permitted"));
    CHILD_EXPECT(!std::filesystem::exists(path));

    std::string note;
    auto engine = Open(path, kMiB, IoEngineKind::kAuto, &note);
    CHILD_EXPECT(engine.has_value());
    CHILD_EXPECT((*engine)->name() == "pread");
    CHILD_EXPECT(note.find("io_uring_setup: Operation not permitted") != std::string::npos);
    CHILD_EXPECT(note.find(path) != std::string::npos);
    IoMemory from(kMiB);
    from.Fill(1);
    IoMemory to(kMiB);
    CHILD_EXPECT(Transfer(engine->get(), IoKind::kWrite, 0, from) == 0);
    CHILD_EXPECT(Transfer(engine->get(), IoKind::kRead, 0, to) == 0);
    CHILD_EXPECT(from == to);
    return 0;
  });
  EXPECT_EQ(code, 0);
}

TEST(IoWithoutUring, RingsThatAreDeniedLaterFailTheirRequestsAndEnd) {
  const testing::IoDirectory directory;
  const int code = RunInChild([&] {
    auto engine = Open(directory.File("data"), kMiB, IoEngineKind::kUring);
    CHILD_EXPECT(engine.has_value());
    IoMemory memory(kMiB);
    CHILD_EXPECT(Transfer(engine->get(), IoKind::kWrite, 0, memory) == 0);
    CHILD_EXPECT(DenySystemCall(SYS_io_uring_enter));
    for (int i = 0; i < 20; ++i) {
      CHILD_EXPECT(Transfer(engine->get(), IoKind::kRead, 0, memory) == EPERM);
    }
    CHILD_EXPECT((*engine)->in_flight() == 0);
    return 0;  // the engine's destructor comes to an end
  });
  EXPECT_EQ(code, 0);
}

TEST(IoWithoutRights, EightMegabytesOfLockedMemoryAreEnoughForAnybody) {
  if (geteuid() != 0) GTEST_SKIP() << "SKIPPED: only root can drop to an unprivileged user";
  constexpr uid_t kNobody = 65534;
  const testing::IoDirectory directory;
  ASSERT_EQ(chown(directory.path().c_str(), kNobody, kNobody), 0);
  // The way to the build directory may be closed to others: a relative path is not.
  const int code = RunInChild([&] {
    const rlimit limit = {8 * kMiB, 8 * kMiB};
    CHILD_EXPECT(chdir(directory.path().c_str()) == 0);
    CHILD_EXPECT(setrlimit(RLIMIT_MEMLOCK, &limit) == 0);
    CHILD_EXPECT(setgid(kNobody) == 0 && setuid(kNobody) == 0);
    auto engine = OpenIoEngine({.path = "data",
                                .capacity_bytes = 16 * kMiB,
                                .kind = IoEngineKind::kUring,
                                .threads = 4,
                                .depth = 256,
                                .start_thread = testing::StartThread},
                               nullptr);
    CHILD_EXPECT(engine.has_value());
    IoMemory from(16 * kMiB);
    from.Fill(1);
    IoMemory to(16 * kMiB);
    CHILD_EXPECT(Transfer(engine->get(), IoKind::kWrite, 0, from) == 0);
    CHILD_EXPECT(Transfer(engine->get(), IoKind::kRead, 0, to) == 0);
    CHILD_EXPECT(from == to);
    return 0;
  });
  EXPECT_EQ(code, 0);
}

TEST(IoWithoutRights, LimitOnFileSizesIsAnErrorAndNoSignal) {
  const testing::IoDirectory directory;
  const std::string path = directory.File("data");
  const int code = RunInChild([&] {
    const rlimit limit = {kMiB, kMiB};
    CHILD_EXPECT(setrlimit(RLIMIT_FSIZE, &limit) == 0);
    const auto engine = Open(path, 2 * kMiB, IoEngineKind::kPread);
    CHILD_EXPECT(!engine.has_value());
    CHILD_EXPECT(engine.error().os_errno() == EFBIG);
    CHILD_EXPECT(!std::filesystem::exists(path));
    return 0;
  });
  EXPECT_EQ(code, 0);
}

}  // namespace
}  // namespace holdfast

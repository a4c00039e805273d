// What a store does and says in surroundings that are hostile to it. Each line that is asserted
// here stands in docs/operations.md, with DIR for the directory and N for a number.

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <memory>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kvstore/frame.h"
#include "tests/crash/child_process.h"
#include "tests/crash/small_store.h"
#include "tiers/flash_format.h"

namespace holdfast::testing {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

constexpr uint32_t kBlocks = 32;
constexpr int kRefused = 3;
const std::string kUnreadableDisk =
    ". Its copies cannot be found again, nor which ones in flash were erased or of an older epoch; "
    "move this directory and the flash file away to start empty";
#if defined(__SANITIZE_THREAD__)
constexpr bool kThreadSanitizer = true;
#else
constexpr bool kThreadSanitizer = false;
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif

std::string Contents(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void Overwrite(const std::string& path, uint64_t offset, const void* bytes, size_t size) {
  const int fd = open(path.c_str(), O_WRONLY | O_CLOEXEC);
  ASSERT_GE(fd, 0) << path;
  EXPECT_EQ(pwrite(fd, bytes, size, static_cast<off_t>(offset)), static_cast<ssize_t>(size));
  EXPECT_EQ(fsync(fd), 0);
  close(fd);
}

class SurroundingsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::current_path() / "surroundings.XXXXXX").string();
    work_ = mkdtemp(name.data());
    directory_ = work_ + "/store";
  }
  void TearDown() override {
    std::error_code error;
    fs::remove_all(work_, error);
  }

  // A store with kBlocks durable ones, closed.
  void MakeStore() {
    SmallStore store(directory_);
    ASSERT_TRUE(store.Open().ok());
    ASSERT_EQ(store.Put(0, kBlocks), kBlocks);
    ASSERT_TRUE(store.Drain().ok());
  }
  // The one line of an opening that fails.
  void ExpectRefused(StatusCode code, const std::string& line) {
    SmallStore store(directory_);
    const Status status = store.Open();
    EXPECT_EQ(status.code(), code);
    ExpectLine(std::string(status.message()), line);
    EXPECT_TRUE(store.lines().empty()) << store.lines()[0];
  }
  // Of an opening that succeeds without a word: blocks that are still there.
  size_t ServedInSilence() {
    SmallStore store(directory_);
    const Status status = store.Open();
    EXPECT_TRUE(status.ok()) << status.ToString();
    if (!status.ok()) return 0;
    const size_t served = store.Fetch(0, kBlocks);
    EXPECT_EQ(store.wrong(), 0u);
    EXPECT_TRUE(store.lines().empty()) << store.lines()[0];
    return served;
  }
  // `said` is `line`, with DIR and N for what differs, and the manual has it.
  void ExpectLine(std::string said, const std::string& line) const {
    for (size_t at; (at = said.find(directory_)) != std::string::npos;) {
      said.replace(at, directory_.size(), "DIR");
    }
    said = std::regex_replace(said, std::regex("\\b[0-9]{4,}\\b"), "N");
    EXPECT_EQ(said, line);
    EXPECT_NE(Contents(HOLDFAST_OPERATIONS).find("`" + line + "`"), std::string::npos)
        << "docs/operations.md does not say: " << line;
  }

  struct Told {
    int code = -1;
    std::string text;  // with DIR for "store", its directory
    bool Says(const std::string& line) const {
      return ("\n" + text).find("\n" + line + "\n") != std::string::npos;
    }
    std::vector<std::string> Logged() const {
      std::vector<std::string> lines;
      std::istringstream in(text);
      for (std::string line; std::getline(in, line);) {
        if (line.rfind("log: ", 0) == 0) lines.push_back(line.substr(5));
      }
      return lines;
    }
  };
  Told InChild(const std::string& mode) {
    const std::string output = work_ + "/output";
    ChildProcess child({HOLDFAST_SURROUNDINGS_CHILD, work_, mode}, output);
    Told told;
    EXPECT_TRUE(child.EndedWithin(120s)) << mode;
    told.code = child.Wait();
    told.text = std::regex_replace(Contents(output), std::regex("\\bstore/"), "DIR/");
    return told;
  }

  std::string work_;
  std::string directory_;
};

// ---------------------------------------------------------------- the system

TEST_F(SurroundingsTest, DeniedIoUringMeansPreadAndOneLine) {
  const Told told = InChild("no-uring");
  ASSERT_EQ(told.code, 0) << told.text;
  EXPECT_TRUE(told.Says("open: OK")) << told.text;
  EXPECT_TRUE(told.Says("engine: pread")) << told.text;
  EXPECT_TRUE(told.Says("kept: 32 of 32")) << told.text;
  EXPECT_TRUE(told.Says("served: 32 of 32")) << told.text;
  ASSERT_EQ(told.Logged().size(), 1u) << told.text;
  ExpectLine(told.Logged()[0],
             "io_uring is not to be had: io_uring_setup: Operation not permitted; DIR/flash is "
             "read and written by pread threads instead");
}

TEST_F(SurroundingsTest, EightMegabytesOfLockedMemoryAreEnoughForAnybody) {
  if (geteuid() != 0) GTEST_SKIP() << "SKIPPED: only root can drop to an unprivileged user";
  ASSERT_EQ(chown(work_.c_str(), 65534, 65534), 0);
  const Told told = InChild("nobody");
  ASSERT_EQ(told.code, 0) << told.text;
  EXPECT_TRUE(told.Says("open: OK")) << told.text;
  EXPECT_TRUE(told.Says("drain: OK")) << told.text;
  EXPECT_TRUE(told.Says("served: 32 of 32")) << told.text;
  EXPECT_TRUE(told.Logged().empty()) << told.text;
}

TEST_F(SurroundingsTest, DirectoryThatCannotBeMadeIsRefused) {
  if (geteuid() != 0) GTEST_SKIP() << "SKIPPED: only root can drop to an unprivileged user";
  ASSERT_EQ(chmod(work_.c_str(), 0555), 0);
  const Told told = InChild("nobody");
  EXPECT_TRUE(told.Says("open: IO_ERROR: directory store: Permission denied")) << told.text;
  ExpectLine("directory " + directory_ + ": Permission denied", "directory DIR: Permission denied");
  EXPECT_TRUE(told.Logged().empty()) << told.text;
}

TEST_F(SurroundingsTest, ReadOnlyDirectoryIsRefused) {
  if (geteuid() != 0) GTEST_SKIP() << "SKIPPED: only root can drop to an unprivileged user";
  ASSERT_EQ(mkdir(directory_.c_str(), 0555), 0);
  ASSERT_EQ(chmod(work_.c_str(), 0755), 0);
  const Told told = InChild("nobody");
  EXPECT_TRUE(told.Says("open: IO_ERROR: DIR/LOCK: Permission denied")) << told.text;
  ExpectLine(directory_ + "/LOCK: Permission denied", "DIR/LOCK: Permission denied");
  EXPECT_TRUE(told.Logged().empty()) << told.text;
}

TEST_F(SurroundingsTest, SecondProcessIsRefused) {
  SmallStore store(directory_);
  ASSERT_TRUE(store.Open().ok());
  const Told told = InChild("plain");
  const std::string line = "in use by another store; a directory has one owner";
  EXPECT_TRUE(told.Says("open: FAILED_PRECONDITION: store: " + line)) << told.text;
  ExpectRefused(StatusCode::kFailedPrecondition, "DIR: " + line);  // nor a second store here
  EXPECT_EQ(store.Put(0, kBlocks), kBlocks);
  EXPECT_EQ(store.Fetch(0, kBlocks), kBlocks);
}

constexpr const char* kNoThread =
    ": the system refused the thread; raise the limit on threads (ulimit -u, pids.max of the "
    "cgroup) or on memory (ulimit -v)";

TEST_F(SurroundingsTest, ThreadThatIsRefusedAnywhereIsAnErrorThatNamesIt) {
  if (geteuid() != 0) GTEST_SKIP() << "SKIPPED: only root can drop to an unprivileged user";
  ASSERT_EQ(chown(work_.c_str(), 65534, 65534), 0);
  std::set<std::string> refused;
  for (int threads = 1; threads <= 24; ++threads) {
    const Told told = InChild("threads=" + std::to_string(threads));
    ASSERT_EQ(told.code, 0) << threads << ": " << told.text;
    if (told.Says("open: OK")) continue;
    std::smatch match;
    ASSERT_TRUE(std::regex_search(told.text, match, std::regex("(hf-[a-z]+[-a-z0-9]*): the")))
        << threads << ": " << told.text;
    EXPECT_NE(told.text.find(kNoThread), std::string::npos) << told.text;
    refused.insert(match[1]);
  }
  EXPECT_GE(refused.size(), 5u);
  ExpectLine(std::string("hf-driver") + kNoThread, std::string("hf-driver") + kNoThread);
}

TEST_F(SurroundingsTest, MemoryThatIsRefusedAnywhereIsAnError) {
  if (kSanitized) GTEST_SKIP() << "SKIPPED: sanitizers need the addresses";
  int failed = 0;
  for (const int mib : {8, 16, 24, 32, 48, 64, 80, 96, 128, 160, 200, 300}) {
    const Told told = InChild("addresses=" + std::to_string(mib));
    ASSERT_EQ(told.code, 0) << mib << ": " << told.text;
    EXPECT_NE(told.text.find("open: "), std::string::npos) << mib << ": " << told.text;
    failed += told.Says("open: OK") ? 0 : 1;
  }
  EXPECT_GT(failed, 0);
}

TEST_F(SurroundingsTest, TooFewOpenFilesAreRefusedByNumber) {
  const std::string line =
      "disk tier in DIR/disk: the limit on open files (ulimit -n) is 40 and may not be raised; at "
      "least 128";
  const Told told = InChild("files=40");
  EXPECT_TRUE(told.Says("open: RESOURCE_EXHAUSTED: disk tier in DIR/disk" +
                        line.substr(line.find(": the"))))
      << told.text;
  ExpectLine(line, line);
  const Told enough = InChild("files=128");
  EXPECT_TRUE(enough.Says("open: OK")) << enough.text;
  EXPECT_TRUE(enough.Says("served: 32 of 32")) << enough.text;
}

// ---------------------------------------------------------------- space

TEST_F(SurroundingsTest, FlashThatDoesNotFitIsRefusedBeforeItTakesAnything) {
  SmallStore store(directory_);
  store.options.flash_bytes = uint64_t{1} << 43;
  store.options.index_entries_max = 1 << 16;
  const Status status = store.Open();
  EXPECT_EQ(status.os_errno(), ENOSPC);
  ExpectLine(std::string(status.message()),
             "preallocate DIR/flash: N bytes wanted, N free: No space left on device");
  EXPECT_FALSE(fs::exists(directory_ + "/flash"));
}

TEST_F(SurroundingsTest, FullDiskIsServedAroundAndSaidOnce) {
  const Told told = InChild("full-disk");
  if (told.code == kRefused) {
    GTEST_SKIP() << "SKIPPED: no small file system may be mounted here (" << told.text
                 << "); a full device is tried through the I/O seam alone";
  }
  ASSERT_EQ(told.code, 0) << told.text;
  EXPECT_TRUE(told.Says("open: OK")) << told.text;
  EXPECT_TRUE(told.Says("nearly all: yes")) << told.text;
  EXPECT_TRUE(told.Says("served what was kept: yes")) << told.text;
  EXPECT_FALSE(told.Says("disk errno: 0")) << told.text;
  EXPECT_TRUE(told.Says("wrong: 0")) << told.text;
  ASSERT_EQ(told.Logged().size(), 1u) << told.text;
  ExpectLine(told.Logged()[0],
             "disk: No space left on device; what it cannot keep or give is a miss, and it is "
             "tried again");
}

// Another engine, whose writes fail once `full` is set.
class FullEngine final : public IoEngine {
 public:
  FullEngine(std::unique_ptr<IoEngine> base, const std::atomic<bool>& full)
      : base_(std::move(base)), full_(full) {}
  std::string_view name() const noexcept override { return base_->name(); }
  void Submit(IoRequest* request) override {
    if (request->kind == IoKind::kWrite && full_) {
      request->error = ENOSPC;
      request->done(request);
    } else {
      base_->Submit(request);
    }
  }
  size_t Poll() override { return base_->Poll(); }
  size_t in_flight() const noexcept override { return base_->in_flight(); }
  uint64_t capacity_bytes() const noexcept override { return base_->capacity_bytes(); }
  size_t pieces_max() const noexcept override { return base_->pieces_max(); }
  bool direct() const noexcept override { return base_->direct(); }

 private:
  std::unique_ptr<IoEngine> base_;
  const std::atomic<bool>& full_;
};

TEST_F(SurroundingsTest, FlashThatRunsFullLaterIsServedAroundAndSaidOnce) {
  std::atomic<bool> full = false;
  SmallStore store(directory_);
  store.environment.open_io = [&](const IoEngineOptions& options,
                                  std::string* note) -> Result<std::unique_ptr<IoEngine>> {
    HF_ASSIGN_OR_RETURN(std::unique_ptr<IoEngine> base, OpenIoEngine(options, note));
    return std::unique_ptr<IoEngine>(new FullEngine(std::move(base), full));
  };
  ASSERT_TRUE(store.Open().ok());
  ASSERT_EQ(store.Put(0, kBlocks), kBlocks);
  ASSERT_TRUE(store.Drain().ok());
  full = true;
  constexpr uint32_t kMore = 160;
  uint32_t kept = 0;
  for (uint32_t i = kBlocks; i < kBlocks + kMore; ++i) {  // through ddr, whatever flash does
    const size_t put = store.Put(i, i + 1);
    EXPECT_EQ(store.Fetch(i, i + 1), put);
    kept += static_cast<uint32_t>(put);
  }
  EXPECT_GE(kept, kMore - kMore / 20);          // one that waited too long for room is declined
  EXPECT_EQ(store.Fetch(0, kBlocks), kBlocks);  // reading goes on
  EXPECT_EQ(store->Stats().tiers[2].last_errno, ENOSPC);
  EXPECT_EQ(store.wrong(), 0u);
  ASSERT_EQ(store.lines().size(), 1u);
  ExpectLine(store.lines()[0],
             "flash: No space left on device; what it cannot keep or give is a miss, and it is "
             "tried again");
}

// ---------------------------------------------------------------- flash

TEST_F(SurroundingsTest, BothSuperblocksCorruptIsDataLoss) {
  MakeStore();
  const std::string noise(2 * kPageBytes, '\x5a');
  Overwrite(directory_ + "/flash", 0, noise.data(), noise.size());
  ExpectRefused(StatusCode::kDataLoss,
                "flash DIR/flash: both superblocks are corrupt. Its copies cannot be found again; "
                "remove the file to start empty, or name another one if it is not holdfast's");
}

TEST_F(SurroundingsTest, OneCorruptSuperblockIsRepairedInSilence) {
  MakeStore();
  const std::string noise(kPageBytes, '\x5a');
  for (const uint64_t copy : {0, 1, 0}) {  // each time the other one has to be good
    Overwrite(directory_ + "/flash", copy * kPageBytes, noise.data(), noise.size());
    EXPECT_EQ(ServedInSilence(), kBlocks);
  }
}

TEST_F(SurroundingsTest, NewerFlashIsRefused) {
  MakeStore();
  const std::string head = Contents(directory_ + "/flash").substr(0, kPageBytes);
  internal::FlashSuperblock block;
  std::memcpy(&block, head.data(), sizeof block);
  ++block.version;
  block.checksum = Checksum64(
      {reinterpret_cast<const std::byte*>(&block), offsetof(internal::FlashSuperblock, checksum)});
  for (const uint64_t copy : {0, 1}) {
    Overwrite(directory_ + "/flash", copy * kPageBytes, &block, sizeof block);
  }
  ExpectRefused(StatusCode::kFailedPrecondition,
                "flash DIR/flash was written by a newer version of holdfast; open it with that, or "
                "remove the file to start empty");
}

TEST_F(SurroundingsTest, FlashOfAnotherStoreIsRefused) {
  MakeStore();
  fs::remove(directory_ + "/IDENTITY");  // a new one is made: whose flash is this?
  ExpectRefused(StatusCode::kFailedPrecondition,
                "flash DIR/flash belongs to another store; name the right file, or remove it to "
                "start empty");
}

TEST_F(SurroundingsTest, ShortenedFlashLosesItsEndAlone) {
  MakeStore();
  fs::resize_file(directory_ + "/flash", 2 << 20);
  const size_t served = ServedInSilence();
  EXPECT_GT(served, 0u);
  EXPECT_LT(served, kBlocks);
  EXPECT_EQ(fs::file_size(directory_ + "/flash"), 32u << 20);
}

TEST_F(SurroundingsTest, RefusedDirectIoIsAnErrorOrANamedMode) {
  {
    SmallStore store(directory_);
    store.options.flash_path = "/proc/self/comm";  // a regular file that knows no O_DIRECT
    const Status status = store.Open();
    EXPECT_EQ(status.code(), StatusCode::kUnimplemented);
    const std::string line(status.message());
    EXPECT_EQ(line.rfind("/proc/self/comm: ", 0), 0u) << line;
    ExpectLine(directory_ + "/flash" + line.substr(line.find(": ")),
               "DIR/flash: this file system refuses O_DIRECT; another directory, or "
               "flash_buffered = true");
  }
  SmallStore store(directory_);
  store.options.flash_buffered = true;
  ASSERT_TRUE(store.Open().ok());
  EXPECT_EQ(store.Put(0, kBlocks), kBlocks);
  EXPECT_EQ(store.Fetch(0, kBlocks), kBlocks);
  EXPECT_TRUE(store.lines().empty());
}

// ---------------------------------------------------------------- identity and disk

TEST_F(SurroundingsTest, NewerDirectoryIsRefused) {
  MakeStore();
  const uint64_t version = 2;
  Overwrite(directory_ + "/IDENTITY", 8, &version, sizeof version);
  ExpectRefused(StatusCode::kFailedPrecondition,
                "DIR/IDENTITY: format version 2 is newer than this build, which knows 1");
}

TEST_F(SurroundingsTest, CorruptIdentityIsDataLoss) {
  MakeStore();
  const std::string whole = Contents(directory_ + "/IDENTITY");
  const std::string line =
      "DIR/IDENTITY: not an identity of a store; without it nothing stored here can be found: "
      "empty the directory to start anew";
  const char flipped = static_cast<char>(whole[20] ^ 1);  // of the secret
  Overwrite(directory_ + "/IDENTITY", 20, &flipped, 1);
  ExpectRefused(StatusCode::kDataLoss, line);
  Overwrite(directory_ + "/IDENTITY", 0, whole.data(), whole.size());
  EXPECT_EQ(ServedInSilence(), kBlocks);
  fs::resize_file(directory_ + "/IDENTITY", whole.size() - 1);
  ExpectRefused(StatusCode::kDataLoss, line);
}

TEST_F(SurroundingsTest, GarbageInDiskIsDataLossOrNothing) {
  MakeStore();
  std::ofstream(directory_ + "/disk/somebody_elses.txt") << "not of a store";
  EXPECT_EQ(ServedInSilence(), kBlocks);
  std::ofstream(directory_ + "/disk/CURRENT") << "garbage";
  ExpectRefused(StatusCode::kDataLoss,
                "disk tier in DIR/disk: its list of families is not readable: Corruption: CURRENT "
                "file does not end with newline" +
                    kUnreadableDisk);
}

TEST_F(SurroundingsTest, LostTableOfDiskIsDataLossAndSaysWhatToDo) {
  MakeStore();
  EXPECT_EQ(ServedInSilence(), kBlocks);  // an opening makes a table of the log
  size_t lost = 0;
  for (const auto& entry : fs::directory_iterator(directory_ + "/disk")) {
    if (entry.path().extension() == ".sst") lost += fs::remove(entry.path());
  }
  ASSERT_GT(lost, 0u);
  SmallStore store(directory_);
  const Status status = store.Open();
  EXPECT_EQ(status.code(), StatusCode::kDataLoss);
  EXPECT_TRUE(status.message().ends_with(kUnreadableDisk)) << status.ToString();
  fs::remove_all(directory_ + "/disk");
  fs::remove(directory_ + "/flash");
  EXPECT_TRUE(store.Open().ok());
}

// ---------------------------------------------------------------- fork

// Its exit code.
int InFork(const std::function<bool()>& body) {
  const pid_t child = fork();
  if (child == 0) {
    alarm(60);
    _exit(body() ? 0 : 1);
  }
  int status = 0;
  if (child < 0 || waitpid(child, &status, 0) != child) return -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

TEST_F(SurroundingsTest, ChildLeavesTheStoreOfItsParentAlone) {
  SmallStore store(directory_);
  ASSERT_TRUE(store.Open().ok());
  ASSERT_EQ(store.Put(0, kBlocks), kBlocks);
  EXPECT_EQ(InFork([&] {
              store.Close();
              return true;
            }),
            0);
  ASSERT_TRUE(store.Drain().ok());
  EXPECT_EQ(store.Fetch(0, kBlocks), kBlocks);
}

TEST_F(SurroundingsTest, ChildMayHaveAStoreOfItsOwn) {
  if (kThreadSanitizer) GTEST_SKIP() << "SKIPPED: it takes no thread after a fork";
  SmallStore store(directory_);
  ASSERT_TRUE(store.Open().ok());
  EXPECT_EQ(InFork([&] {
              SmallStore own(work_ + "/own");
              const bool good = own.Open().ok() && own.Put(0, kBlocks) == kBlocks &&
                                own.Drain().ok() && own.Fetch(0, kBlocks) == kBlocks;
              own.Close();
              return good;
            }),
            0);
  EXPECT_EQ(store.Put(0, kBlocks), kBlocks);
}

TEST_F(SurroundingsTest, ChildThatLivesOnDoesNotKeepTheDirectory) {
  SmallStore store(directory_);
  ASSERT_TRUE(store.Open().ok());
  const pid_t child = fork();
  if (child == 0) {
    alarm(60);
    for (;;) pause();
  }
  ASSERT_GT(child, 0);
  store.Close();
  EXPECT_TRUE(store.Open().ok());
  kill(child, SIGKILL);
  EXPECT_EQ(waitpid(child, nullptr, 0), child);
}

}  // namespace
}  // namespace holdfast::testing

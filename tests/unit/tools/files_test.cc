#include "tools/files.h"

#include <array>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

namespace holdfast::tools {
namespace {

namespace fs = std::filesystem;

std::string Content(const fs::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

// Works in a directory of its own, which is the current one meanwhile.
class FilesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    before_ = fs::current_path();
    std::string directory = ::testing::TempDir() + "files_test_XXXXXX";
    ASSERT_NE(::mkdtemp(directory.data()), nullptr);
    fs::current_path(directory);
    directory_ = directory;
  }
  void TearDown() override {
    fs::current_path(before_);
    fs::remove_all(directory_);
  }
  size_t Entries() const {
    return static_cast<size_t>(std::distance(fs::directory_iterator(directory_), {}));
  }

  fs::path before_;
  fs::path directory_;
};

Status Write(const std::string& path, std::string_view content) {
  HF_ASSIGN_OR_RETURN(OutputFile file, OutputFile::Open(path));
  return file.Write(content);
}

int ErrnoOf(const Status& status) { return status.ok() ? 0 : status.os_errno(); }

fs::perms Mode(const fs::path& path) { return fs::status(path).permissions(); }

TEST_F(FilesTest, AWrittenFileReplacesTheOldOneAndLeavesNothingElse) {
  ASSERT_TRUE(Write("out.json", "old").ok());
  ASSERT_TRUE(Write("out.json", "new").ok());
  EXPECT_EQ(Content("out.json"), "new");
  EXPECT_EQ(Entries(), 1u);
}

TEST_F(FilesTest, AReplacedFileKeepsItsModeAndANewOneHasThatOfNewFiles) {
  std::ofstream("plain") << "x";
  std::ofstream("secret") << "x";
  fs::permissions("secret", fs::perms::owner_read | fs::perms::owner_write);
  const fs::perms secret = Mode("secret");
  ASSERT_TRUE(Write("secret", "new").ok());
  ASSERT_TRUE(Write("other", "new").ok());
  EXPECT_EQ(Mode("secret"), secret);
  EXPECT_EQ(Mode("other"), Mode("plain"));
}

TEST_F(FilesTest, SymbolicLinksAreFollowedAndStay) {
  fs::create_directory("target");
  std::ofstream("target/there") << "old";
  fs::create_symlink("target/there", "second");
  fs::create_symlink("second", "first");
  fs::create_symlink("target/absent", "dangling");
  ASSERT_TRUE(Write("first", "new").ok());
  ASSERT_TRUE(Write("dangling", "new").ok());
  EXPECT_TRUE(fs::is_symlink("first"));
  EXPECT_TRUE(fs::is_symlink("second"));
  EXPECT_TRUE(fs::is_symlink("dangling"));
  EXPECT_EQ(Content("target/there"), "new");
  EXPECT_EQ(Content("target/absent"), "new");
  fs::create_symlink("loop", "loop");
  EXPECT_EQ(ErrnoOf(Write("loop", "x")), ELOOP);
}

TEST_F(FilesTest, WhatIsNoRegularFileIsWrittenDirectly) {
  ASSERT_EQ(::mkfifo("pipe", 0600), 0);
  const int reader = ::open("pipe", O_RDONLY | O_NONBLOCK);
  ASSERT_TRUE(Write("pipe", "text").ok());
  std::array<char, 8> read{};
  EXPECT_EQ(::read(reader, read.data(), read.size()), 4);
  ::close(reader);
  EXPECT_TRUE(fs::is_fifo("pipe"));
  EXPECT_TRUE(Write("/dev/null", "text").ok());
  EXPECT_TRUE(fs::is_character_file("/dev/null"));
  EXPECT_EQ(ErrnoOf(Write("/dev/full", "text")), ENOSPC);
}

TEST_F(FilesTest, AFileThatCannotBeWrittenIsNamedAtOnce) {
  for (const char* path : {"absent/out.json", "."}) {
    const Result<OutputFile> file = OutputFile::Open(path);
    ASSERT_FALSE(file.has_value()) << path;
    EXPECT_EQ(file.error().code(), StatusCode::kIoError);
    EXPECT_NE(file.error().message().find(path), std::string_view::npos);
  }
  EXPECT_EQ(Entries(), 0u);
}

TEST_F(FilesTest, AFreshDirectoryGoesWithItsOwner) {
  {
    const Result<DataDirectory> fresh = DataDirectory::Fresh();
    ASSERT_TRUE(fresh.has_value());
    std::ofstream(fresh->path() + "/flash") << "x";
    EXPECT_TRUE(fs::exists(fresh->path()));
  }
  EXPECT_EQ(Entries(), 0u);
}

TEST_F(FilesTest, AFreshDirectoryBesideAnotherLeavesThatAlone) {
  Result<DataDirectory> kept = DataDirectory::Fresh();
  ASSERT_TRUE(kept.has_value());
  kept->Keep();
  { ASSERT_TRUE(DataDirectory::Fresh().has_value()); }
  EXPECT_TRUE(fs::exists(kept->path()));
}

TEST_F(FilesTest, ANamedDirectoryStays) {
  {
    Result<DataDirectory> named = DataDirectory::Named("a/b");
    ASSERT_TRUE(named.has_value());
    named->Keep();
  }
  EXPECT_TRUE(fs::exists("a/b"));
  { ASSERT_TRUE(DataDirectory::Named("a/b").has_value()); }
  EXPECT_TRUE(fs::exists("a/b"));
}

TEST_F(FilesTest, ANamedDirectoryThatWasOfNoUseIsGoneAgain) {
  fs::create_directory("a");
  {
    const Result<DataDirectory> named = DataDirectory::Named("a/b/c");
    ASSERT_TRUE(named.has_value());
    std::ofstream(named->path() + "/lock") << "x";
  }
  EXPECT_TRUE(fs::exists("a"));
  EXPECT_FALSE(fs::exists("a/b"));
  { ASSERT_TRUE(DataDirectory::Named("d/").has_value()); }
  EXPECT_EQ(Entries(), 1u);
}

}  // namespace
}  // namespace holdfast::tools

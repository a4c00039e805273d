#include "tools/files.h"

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include <gtest/gtest.h>

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

TEST_F(FilesTest, AWrittenFileReplacesTheOldOneAndLeavesNothingElse) {
  ASSERT_TRUE(WriteFileAtomically("out.json", "old").ok());
  ASSERT_TRUE(WriteFileAtomically("out.json", "new").ok());
  EXPECT_EQ(Content("out.json"), "new");
  EXPECT_EQ(Entries(), 1u);
}

TEST_F(FilesTest, AFileThatCannotBeWrittenIsNamed) {
  const Status status = WriteFileAtomically("absent/out.json", "x");
  EXPECT_EQ(status.code(), StatusCode::kIoError);
  EXPECT_NE(status.message().find("absent/out.json"), std::string_view::npos);
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
    const Result<DataDirectory> named = DataDirectory::Named("a/b");
    ASSERT_TRUE(named.has_value());
    EXPECT_FALSE(named->temporary());
  }
  EXPECT_TRUE(fs::exists("a/b"));
}

}  // namespace
}  // namespace holdfast::tools

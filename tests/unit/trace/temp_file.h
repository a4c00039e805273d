// A file with the given content that lives as long as the object.
#pragma once

#include <cstdio>
#include <string>
#include <string_view>

#include <gtest/gtest.h>
#include <unistd.h>
#include <zlib.h>

namespace holdfast::testing {

class TempFile {
 public:
  explicit TempFile(std::string_view content) : path_(::testing::TempDir() + "holdfast-XXXXXX") {
    const int fd = ::mkstemp(path_.data());
    std::FILE* file = fd < 0 ? nullptr : ::fdopen(fd, "wb");
    EXPECT_NE(file, nullptr) << path_;
    if (file == nullptr) return;
    EXPECT_EQ(std::fwrite(content.data(), 1, content.size(), file), content.size());
    EXPECT_EQ(std::fclose(file), 0);
  }
  TempFile(const TempFile&) = delete;
  TempFile& operator=(const TempFile&) = delete;
  ~TempFile() { ::unlink(path_.c_str()); }

  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

inline std::string Gzipped(std::string_view content, int level = 6) {
  z_stream stream = {};
  constexpr int kGzip = 15 + 16;
  EXPECT_EQ(deflateInit2(&stream, level, Z_DEFLATED, kGzip, 8, Z_DEFAULT_STRATEGY), Z_OK);
  std::string out(deflateBound(&stream, content.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(content.data()));
  stream.avail_in = static_cast<uInt>(content.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

}  // namespace holdfast::testing

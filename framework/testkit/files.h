// A temporary folder of files for one test, and samples read from a source.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include "millrace/error.h"
#include "millrace/source.h"
#include "millrace/stage.h"

namespace millrace::testkit {

class TestFolder {
 public:
  TestFolder() {
    const testing::TestInfo* test = testing::UnitTest::GetInstance()->current_test_info();
    path_ = std::filesystem::path(testing::TempDir()) /
            fmt::format("millrace_{}_{}_{}", test->test_suite_name(), test->name(), getpid());
    std::filesystem::remove_all(path_);
    std::filesystem::create_directories(path_);
  }
  TestFolder(const TestFolder&) = delete;
  TestFolder& operator=(const TestFolder&) = delete;
  ~TestFolder() { std::filesystem::remove_all(path_); }

  const std::filesystem::path& path() const { return path_; }
  std::string operator/(const std::string& name) const { return (path_ / name).string(); }

  // Returns the path.
  std::string write(const std::string& name, std::string_view bytes = "bytes") const {
    std::filesystem::create_directories((path_ / name).parent_path());
    std::ofstream(path_ / name, std::ios::binary) << bytes;
    return (path_ / name).string();
  }

 private:
  std::filesystem::path path_;
};

inline void read(Source& source, std::uint64_t index, Sample& sample) {
  sample.reset({0, index, index, 0}, {});
  source.read(sample);
}

inline std::string text(const ByteBuffer& bytes) { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }

// The error of `call`; ErrorKind::run and "nothing was thrown" if there is none.
template <class Call>
Error error_of(Call call) {
  try {
    call();
  } catch (const Error& error) {
    return error;
  }
  return Error(ErrorKind::run, "nothing was thrown");
}

// The test fails if it is of another kind. REQUIRES: the caller compares the message too, since no error is no failure here.
template <class Call>
Error error_of(ErrorKind kind, Call call) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), kind) << error.what();
    return error;
  }
  return error_of([] {});
}

}  // namespace millrace::testkit

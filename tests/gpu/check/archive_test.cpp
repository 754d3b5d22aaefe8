#include "archive.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <random>
#include <sstream>

namespace millrace::gpu {
namespace {

namespace fs = std::filesystem;

class Archives : public testing::Test {
 protected:
  Archives() {
    fs::remove_all(folder_);
    fs::create_directories(folder_ / "out");
  }
  ~Archives() override { fs::remove_all(folder_); }
  std::string unpacked(const std::string& name) const {  // by the machine's own tar
    const std::string command = "tar -xzf " + (folder_ / "a.tar.gz").string() + " -C " + (folder_ / "out").string();
    EXPECT_EQ(std::system(command.c_str()), 0) << command;
    std::ifstream file(folder_ / "out" / name, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  static std::string noise(std::size_t bytes) {  // cannot be compressed
    std::mt19937 random(1);
    std::string text(bytes, '\0');
    for (char& byte : text) byte = static_cast<char>(random());
    return text;
  }
  const fs::path folder_ = fs::path(testing::TempDir()) / fmt::format("millrace_archive_test_{}", getpid());
};

TEST_F(Archives, AreReadByTar) {
  Archive archive(folder_ / "a.tar.gz", 1 << 20);
  const std::string bytes = noise(70000);
  EXPECT_TRUE(archive.add("results.json", "{}\n"));
  EXPECT_TRUE(archive.add("logs/noise.log", bytes));
  EXPECT_TRUE(archive.add("empty", ""));
  archive.finish();
  EXPECT_EQ(unpacked("results.json"), "{}\n");
  EXPECT_EQ(unpacked("logs/noise.log"), bytes);
  EXPECT_TRUE(fs::exists(folder_ / "out/empty"));
  EXPECT_TRUE(archive.left_out().empty());
}

TEST_F(Archives, LeaveOutWhatDoesNotFitAndNameIt) {
  Archive archive(folder_ / "a.tar.gz", 10000);
  EXPECT_TRUE(archive.add("small", "1"));
  EXPECT_FALSE(archive.add("large", noise(10000)));
  EXPECT_TRUE(archive.add("another", "2"));
  archive.finish();
  EXPECT_EQ(archive.left_out(), std::vector<std::string>{"large"});
  EXPECT_LE(fs::file_size(folder_ / "a.tar.gz"), 10000U);
  EXPECT_EQ(unpacked("another"), "2");
}

TEST_F(Archives, AppearWhenTheyAreWhole) {
  Archive archive(folder_ / "a.tar.gz", 10000);
  archive.add("small", "1");
  EXPECT_FALSE(fs::exists(folder_ / "a.tar.gz"));
  archive.finish();
  EXPECT_TRUE(fs::exists(folder_ / "a.tar.gz"));
}

TEST_F(Archives, HoldTheBeginningAndTheEndOfALongLog) {
  const fs::path file = folder_ / "log";
  std::ofstream(file) << std::string(1000, 'a') << std::string(1000, 'm') << std::string(1000, 'z');
  EXPECT_EQ(cut_file(file, 5000).size(), 3000U);
  const std::string cut = cut_file(file, 400);
  EXPECT_TRUE(cut.starts_with(std::string(100, 'a') + "\n[... 2600 bytes left out ...]\nz"));
  EXPECT_TRUE(cut.ends_with(std::string(300, 'z')));
  EXPECT_EQ(cut_file(folder_ / "none", 400), "");
}

}  // namespace
}  // namespace millrace::gpu

#include "cache.h"

#include <gtest/gtest.h>

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <thread>
#include <vector>

#include "millrace/error.h"
#include "testkit/files.h"

namespace millrace::s3 {
namespace {

namespace fs = std::filesystem;

class Cache : public testing::Test {
 protected:
  Cache() : folder_(fs::path(testing::TempDir()) / ("storage_s3_cache_" + std::to_string(getpid()))) { fs::remove_all(folder_); }
  ~Cache() override { fs::remove_all(folder_); }

  static std::string entry(int number) { return DiskCache::name_of(object_id("http://a/b/" + std::to_string(number), "e")); }
  static std::vector<std::uint8_t> bytes(std::size_t size, int value) {
    return std::vector<std::uint8_t>(size, static_cast<std::uint8_t>(value));
  }

  static std::optional<std::vector<std::uint8_t>> load(DiskCache& cache, const std::string& name) {
    std::vector<std::uint8_t> found;
    const auto room = [&](std::uint64_t size) {
      found.resize(size);
      return std::span(found);
    };
    if (!cache.load(name, room)) return std::nullopt;
    return found;
  }

  fs::path file(const std::string& name) const { return folder_ / name.substr(0, 2) / name; }

  std::uint64_t size() const {
    std::uint64_t sum = 0;
    for (const auto& one : fs::recursive_directory_iterator(folder_)) sum += one.is_regular_file() ? one.file_size() : 0;
    return sum;
  }

  fs::path folder_;
};

TEST_F(Cache, GivesBackWhatWasStored) {
  DiskCache cache(folder_.string(), 1 << 20);
  EXPECT_EQ(load(cache, entry(1)), std::nullopt);
  cache.store(entry(1), bytes(1000, 1));
  cache.store(entry(2), bytes(0, 0));
  EXPECT_EQ(load(cache, entry(1)), bytes(1000, 1));
  EXPECT_EQ(load(cache, entry(2)), bytes(0, 0));
  DiskCache other(folder_.string(), 1 << 20);
  EXPECT_EQ(load(other, entry(1)), bytes(1000, 1));
}

TEST_F(Cache, TellsVersionsAndRangesApart) {
  EXPECT_NE(object_id("http://a/b", "1"), object_id("http://a/b", "2"));
  EXPECT_NE(object_id("http://a/b", "1"), object_id("http://a/c", "1"));
  const ObjectId id = object_id("http://a/b", "1");
  EXPECT_NE(DiskCache::name_of(id), DiskCache::name_of(id, 0, 10));
  EXPECT_NE(DiskCache::name_of(id, 0, 11), DiskCache::name_of(id, 0, 10));
}

TEST_F(Cache, RemovesWhatIsDamaged) {
  DiskCache cache(folder_.string(), 1 << 20);
  const std::string name = entry(1);
  for (const std::size_t at : {0U, 8U, 16U, 48U, 1047U}) {
    cache.store(name, bytes(1000, 7));
    {
      std::fstream stream(file(name), std::ios::in | std::ios::out | std::ios::binary);
      stream.seekp(static_cast<std::streamoff>(at));
      stream.put('\x55');
    }
    EXPECT_EQ(load(cache, name), std::nullopt) << at;
    EXPECT_FALSE(fs::exists(file(name))) << at;
  }
  for (const std::size_t shorter : {0U, 20U, 48U, 500U}) {
    cache.store(name, bytes(1000, 7));
    fs::resize_file(file(name), shorter);
    EXPECT_EQ(load(cache, name), std::nullopt) << shorter;
  }
}

TEST_F(Cache, LetsGoWhatWasUsedLongestAgo) {
  DiskCache cache(folder_.string(), 20'000);
  for (int i = 0; i < 16; ++i) {
    cache.store(entry(i), bytes(1000, i));
    const auto time = fs::file_time_type::clock::now() - std::chrono::hours(100 - i);
    fs::last_write_time(file(entry(i)), time);
  }
  EXPECT_NE(load(cache, entry(0)), std::nullopt);  // used: now the youngest
  for (int i = 16; i < 19; ++i) cache.store(entry(i), bytes(1000, i));
  EXPECT_LE(size(), 20'000U);
  EXPECT_NE(load(cache, entry(0)), std::nullopt);
  EXPECT_EQ(load(cache, entry(1)), std::nullopt);
  EXPECT_NE(load(cache, entry(18)), std::nullopt);
}

TEST_F(Cache, KeepsItsSize) {
  DiskCache cache(folder_.string(), 100'000);
  for (int i = 0; i < 80; ++i) {
    cache.store(entry(i), bytes(static_cast<std::size_t>(i) * 80, i));
    ASSERT_LE(size(), 106'250U) << i;
  }
  cache.store(entry(5000), bytes(100'001, 1));  // larger than all of it
  EXPECT_EQ(load(cache, entry(5000)), std::nullopt);
}

TEST_F(Cache, RemovesUnfinishedFilesOfOthersThatDied) {
  fs::create_directories(folder_ / "ab");
  std::ofstream(folder_ / "ab/abcd.1.0.part") << "x";
  std::ofstream(folder_ / "ab/abce.2.0.part") << "x";
  fs::last_write_time(folder_ / "ab/abcd.1.0.part", fs::file_time_type::clock::now() - std::chrono::hours(2));
  DiskCache(folder_.string(), 1 << 20).store(entry(1), bytes(10, 1));
  EXPECT_FALSE(fs::exists(folder_ / "ab/abcd.1.0.part"));
  EXPECT_TRUE(fs::exists(folder_ / "ab/abce.2.0.part"));
}

TEST_F(Cache, IsSharedByThreadsAndOthersWithTheSameFolder) {
  DiskCache one(folder_.string(), 50'000), other(folder_.string(), 50'000);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      DiskCache& cache = t % 2 ? one : other;
      for (int i = 0; i < 150; ++i) {
        const int number = (i * 7 + t) % 60;
        const auto found = load(cache, entry(number));
        if (found) {
          EXPECT_EQ(*found, bytes(1500, number));
        } else {
          cache.store(entry(number), bytes(1500, number));
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_LE(size(), 50'000U * 9 / 8 + 1600);
}

TEST_F(Cache, NamesAFolderThatCannotBeMade) {
  std::ofstream(folder_) << "a file";
  const Error error = testkit::error_of(ErrorKind::usage, [&] { DiskCache cache(folder_.string(), 1000); });
  EXPECT_NE(error.message().find("MILLRACE_S3_CACHE = '" + folder_.string()), std::string::npos) << error.message();
}

}  // namespace
}  // namespace millrace::s3

// Damage to a cache's file never changes an image.
#include <sys/resource.h>

#include <algorithm>
#include <fstream>
#include <iterator>

#include "cache_file_fixture.h"

namespace millrace {
namespace {

// For any bit: each sample is unchanged, or is read again and named once.
TEST_F(CacheFileTest, AFlippedBitIsFoundWhereverItIs) {
  write_file();
  std::ifstream in(params_.file, std::ios::binary);
  const std::string sound((std::istreambuf_iterator<char>(in)), {});
  int missing = 0;
  for (std::size_t at = 0; at < sound.size(); at += 3) {
    std::string bytes = sound;
    bytes[at] = static_cast<char>(bytes[at] ^ (1 << at % 8));
    std::ofstream(params_.file, std::ios::binary) << bytes;
    testkit::RecordedRun run;
    context_.run = &run;
    try {
      ImageCache cache(params_, context_);
      cache.open();
      int lacks = 0;
      for (const int epoch : {1, 2}) {
        for (std::uint64_t index = 0; index < 5; ++index) {
          if (fetch(cache, index)) {
            const auto width = static_cast<std::int32_t>(index) + 1;
            ASSERT_EQ(sample_.label, static_cast<int>(index)) << at;
            ASSERT_EQ(sample_.image().shape, (ImageShape{2, width, 3})) << at;
            ASSERT_TRUE(std::all_of(sample_.image().data, sample_.image().data + 6 * width, [&](auto v) { return v == index; }))
                << at;
            ASSERT_EQ(sample_.source_map(), map_of(index)) << at;
            ASSERT_EQ(sample_.url, "u" + std::to_string(index)) << at;
          } else {
            lacks += epoch;
          }
        }
      }
      ASSERT_EQ(run.warnings().size(), 1U) << at;
      ASSERT_TRUE(lacks == 3 || lacks == 15) << at << ": one in each epoch, or the whole file";
      missing += lacks == 3;
    } catch (const Error& error) {  // its beginning does not match a cache file
      ASSERT_LT(at, 7U) << error.what();
    }
  }
  EXPECT_GT(missing, 300);
  context_.run = &run_;
}

TEST_F(CacheFileTest, OneOfAnOlderVersionIsWrittenAgain) {
  write_file();
  std::fstream file(params_.file, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(7);
  file.put('3');
  file.close();
  ImageCache cache(params_, context_);
  cache.open();
  EXPECT_FALSE(fetch(cache, 0));
  ASSERT_EQ(run_.warnings().size(), 1U);
  EXPECT_EQ(run_.warnings()[0],
            "cache file '" + params_.file + "' is rewritten: it has an older version, without checksums of its images");
}

// An mmap of it would end the process by SIGBUS, as with a failing disk.
TEST_F(CacheFileTest, OneThatIsCutShortWhileItIsReadIsDamaged) {
  write_file();
  ImageCache cache(params_, context_);
  cache.open();
  EXPECT_TRUE(fetch(cache, 4));
  fs::resize_file(params_.file, 0);
  for (std::uint64_t index = 0; index < 5; ++index) EXPECT_FALSE(fetch(cache, index));
  ASSERT_EQ(run_.warnings().size(), 5U);
  EXPECT_EQ(run_.warnings()[0],
            "cache file '" + params_.file + "': the image of sample 0 is damaged, and is read again from its source");
}

// For example too many open files: the file is valid, and a new one would not be better.
TEST_F(CacheFileTest, ALackOfTheSystemIsNoDamage) {
  write_file();
  const auto bytes = fs::file_size(params_.file);
  rlimit before{};
  getrlimit(RLIMIT_NOFILE, &before);
  const rlimit none{0, before.rlim_max};
  ImageCache cache(params_, context_);
  setrlimit(RLIMIT_NOFILE, &none);
  const std::string error = error_of([&] { cache.open(); });
  setrlimit(RLIMIT_NOFILE, &before);
  EXPECT_EQ(error, "the cache file '" + params_.file + "' cannot be opened: Too many open files");
  EXPECT_EQ(fs::file_size(params_.file), bytes);
  EXPECT_TRUE(run_.warnings().empty());
}

}  // namespace
}  // namespace millrace

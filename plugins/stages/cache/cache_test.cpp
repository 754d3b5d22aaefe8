#include "cache.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <thread>
#include <vector>

#include "cache_file_fixture.h"
#include "millrace/plugin.h"
#include "testkit/graph_fixture.h"
#include "testkit/messages.h"
#include "testkit/stages.h"

namespace millrace {
namespace {

namespace fs = std::filesystem;

// Samples whose reads are counted; the label is the index modulo 3.
class CountedSource : public Source {
 public:
  struct Params : SourceParams {
    std::int64_t size = 50;
    bool bad = false;  // sample 7 is bad
  };
  static void describe(StageDescription<Params>& d) {
    d.name("counted");
    d.params.add("size", &Params::size);
    d.params.add("bad", &Params::bad);
    SourceParams::describe(d.params);
  }
  CountedSource(const Params& params, const StageSite&) : Source(params), params_(params) {}
  void open() override {}
  std::uint64_t size() const override { return static_cast<std::uint64_t>(params_.size); }
  std::size_t largest_encoded() const override { return 100; }
  void read(Sample& sample) override {
    ++reads;
    sample.url = "sample/" + std::to_string(sample.key.index);
    sample.label = static_cast<std::int32_t>(sample.key.index % 3);
    const std::size_t bytes = 10 + sample.key.index;
    std::memset(sample.encoded.resize(bytes), static_cast<int>(sample.key.index), bytes);
    if (params_.bad && sample.key.index == 7) fail(ErrorKind::content, "number seven");
  }
  std::atomic<int> reads{0};

 private:
  Params params_;
};

// Pixels that depend only on the encoded bytes.
class Plain : public SampleTransform {
 public:
  struct Params {};
  static void describe(StageDescription<Params>& d) { d.name("plain").input(payload::kSampleChunk).output(payload::kImageChunk); }
  Plain(const Params&, const StageSite&) {}
  ImageShape image_shape() const override { return {3, 4, 3}; }
  void process(Sample& sample, Draw&) override {
    ++made;
    const Image image = sample.new_image(image_shape());
    std::memset(image.data, sample.encoded.data()[0] + static_cast<int>(sample.encoded.size()), image.shape.bytes());
    sample.set_image(image);
  }
  std::atomic<int> made{0};
};

enum class Where { nowhere, encoded, decoded };

struct Outcome {
  std::vector<std::uint64_t> hashes;  // stream and pixels, by step
  int reads = 0, made = 0;
};

Outcome run(Where where, const char* memory, bool bad = false, int threads = 2) {
  testkit::TestGraph test;
  auto& source = test.add<CountedSource>("read", testkit::table({{"shuffle", Value("every-epoch")}, {"bad", Value(bad)}}));
  const Value table = testkit::table({{"memory", Value(memory)}});
  if (where == Where::encoded) test.add<EncodedCache>("cache", table);
  auto& plain = test.add<Plain>("plain");
  if (where == Where::decoded) test.add<ImageCache>("cache", table);
  test.add<testkit::Paint>("paint", testkit::table({{"size", Value(Array{Value(3), Value(4)})}}));
  test.add<testkit::CountingBatcher>("batch", testkit::table({{"size", Value(10)}}));
  auto& log = test.add<testkit::BatchLog>("log");
  test.run({.threads = threads, .epochs = 4});
  Outcome outcome;
  for (const auto& entry : log.entries()) {
    outcome.hashes.push_back(entry.stream_hash);
    outcome.hashes.push_back(entry.pixel_hash);
  }
  outcome.reads = source.reads;
  outcome.made = plain.made;
  return outcome;
}

TEST(Cache, GivesTheSameStreamAndReadsOnce) {
  const Outcome without = run(Where::nowhere, "");
  EXPECT_EQ(without.reads, 200);
  for (const Where where : {Where::encoded, Where::decoded}) {
    const Outcome with = run(where, "1 MiB");
    EXPECT_EQ(with.hashes, without.hashes);
    EXPECT_LT(with.reads, 90) << "all of the first epoch, and what was read ahead before it was known";
    EXPECT_EQ(with.made, where == Where::decoded ? with.reads : 200);
  }
}

TEST(Cache, GivesTheSameStreamWhenItIsTooSmall) {
  const Outcome without = run(Where::nowhere, "");
  const Outcome with = run(Where::decoded, "3 kB");
  EXPECT_EQ(with.hashes, without.hashes);
  EXPECT_GT(with.reads, 90);
  EXPECT_LT(with.reads, 190);
}

TEST(Cache, ReadsBadSamplesAnew) {
  const Outcome without = run(Where::nowhere, "", true);
  const Outcome with = run(Where::decoded, "1 MiB", true);
  EXPECT_EQ(with.hashes, without.hashes);
}

TEST(Cache, RefusesToFreezeDraws) {
  testkit::TestGraph test;
  test.add<CountedSource>("read");
  test.add<Plain>("plain");
  test.add<testkit::Paint>("paint");
  test.add<ImageCache>("cache");
  test.add<testkit::CountingBatcher>("batch");
  test.add<testkit::BatchLog>("log");
  EXPECT_NE(error_of([&] { test.run({}); }).find("changes images at random"), std::string::npos);
}

// Records for each sample whether a device may keep its image.
class Watch : public SampleTransform {
 public:
  struct Params {};
  static void describe(StageDescription<Params>& d) { d.name("watch").input(payload::kImageChunk).output(payload::kImageChunk); }
  Watch(const Params&, const StageSite&) {}
  void process(Sample& sample, Draw&) override { ++(sample.resident() ? resident : others); }
  std::atomic<int> resident{0}, others{0};
};

TEST(Cache, TellsDevicesToKeepItsImagesIfAskedTo) {
  for (const bool device : {false, true}) {
    testkit::TestGraph test;
    test.add<CountedSource>("read");
    test.add<Plain>("plain");
    auto& cache = test.add<ImageCache>("cache", testkit::table({{"memory", Value("3 kB")}, {"device", Value(device)}}));
    auto& behind = test.add<Watch>("after");
    test.add<testkit::Paint>("paint", testkit::table({{"size", Value(Array{Value(3), Value(4)})}}));
    auto& behind_a_change = test.add<Watch>("behind_a_change");
    test.add<testkit::CountingBatcher>("batch", testkit::table({{"size", Value(10)}}));
    test.add<testkit::BatchLog>("log");
    test.run({.epochs = 2});
    EXPECT_EQ(cache.on_device(), device);
    EXPECT_EQ(behind.resident, device ? 100 : 0) << "those that came from the source, and those that it had";
    EXPECT_EQ(behind_a_change.resident, 0);
    EXPECT_EQ(behind_a_change.others, 100);
  }
}

// An entry does not store frames and bits, so the pixels would return as another image.
TEST(Cache, RefusesPixelsThatItsEntriesCannotTell) {
  EncodedCache cache({}, DataContext{});
  Sample sample;
  sample.reset({}, {});
  sample.decoded = {.height = 2, .width = 3, .channels = 1, .frames = 1, .type = DataType::u16};
  sample.encoded.resize(sample.decoded.bytes());
  Draw draw(1, {}, 0);
  const std::string error = error_of([&] { static_cast<SampleTransform&>(cache).process(sample, draw); });
  EXPECT_NE(error.find("the source returns 2 x 3 x 1, u16 pixels, but only 8-bit images"), std::string::npos) << error;
  sample.decoded.type = DataType::u8;
  static_cast<SampleTransform&>(cache).process(sample, draw);
}

TEST(Cache, TwoInOneFlowAreRefused) {
  testkit::TestGraph test;
  test.add<CountedSource>("read");
  test.add<EncodedCache>("first");
  test.add<Plain>("plain");
  test.add<ImageCache>("second");
  test.add<testkit::CountingBatcher>("batch");
  test.add<testkit::BatchLog>("log");
  EXPECT_NE(error_of([&] { test.run({}); }).find("it would make the cache before it useless"), std::string::npos);
}

TEST(Cache, RefusesABudgetThatIsNone) {
  EXPECT_MESSAGE(error_of([] { ImageCache({.memory = "much", .file = ""}, {}); }));
}

// A stage without draws may mirror every image by its record, which is executed on the device.
TEST_F(CacheFileTest, KeepsImagesAsAPendingRecordLeavesThem) {
  context_.window = {2, 3, 3};
  params_.file.clear();
  ImageCache cache(params_, context_);
  cache.open();
  fill(4);
  std::uint8_t* const pixels = sample_.change_colours().data;
  for (std::uint8_t i = 0; i < 30; ++i) pixels[i] = i;
  place_window(sample_, context_.window);
  sample_.record.flip_x(3);
  const auto seen = [&] {
    std::vector<std::uint8_t> out(context_.window.bytes());
    place_window(sample_, context_.window);
    apply_record(sample_.record, sample_.image(), context_.window, out.data());
    return out;
  };
  const std::vector<std::uint8_t> mirrored = seen();
  Draw draw(1, {}, 0);
  static_cast<SampleTransform&>(cache).process(sample_, draw);
  EXPECT_EQ(seen(), mirrored);
  ASSERT_TRUE(fetch(cache, 4));
  EXPECT_EQ(seen(), mirrored);
}

TEST_F(CacheFileTest, AnotherRunReadsWhatOneWrote) {
  write_file();
  ImageCache cache(params_, context_);
  cache.open();
  for (std::uint64_t index = 0; index < 5; ++index) {
    ASSERT_TRUE(fetch(cache, index));
    EXPECT_EQ(sample_.place(), "u" + std::to_string(index) + ": m");
    EXPECT_EQ(sample_.offset, 99U);
    EXPECT_EQ(sample_.content, 1000 + index);
    EXPECT_EQ(sample_.label, static_cast<int>(index));
    EXPECT_EQ(sample_.numbers, (std::vector<float>{0.5F, static_cast<float>(index)}));
    EXPECT_EQ(sample_.image().shape, (ImageShape{2, static_cast<std::int32_t>(index) + 1, 3}));
    EXPECT_EQ(sample_.image().data[2], index);
    EXPECT_EQ(sample_.target().shape, (ImageShape{2, static_cast<std::int32_t>(index) + 1, 1}));
    EXPECT_EQ(sample_.target().data[1], 100 + index);
    EXPECT_EQ(sample_.source_map(), map_of(index));
  }
  EXPECT_FALSE(fetch(cache, 5));
  EXPECT_TRUE(run_.warnings().empty());
}

TEST_F(CacheFileTest, ServesTheSameRunOnceItIsWhole) {
  ImageCache cache(params_, context_);
  cache.open();
  pass(cache, 4);
  EXPECT_FALSE(fetch(cache, 0));
  EXPECT_FALSE(fs::exists(params_.file));
  pass(cache, 5);
  EXPECT_TRUE(fetch(cache, 0));
}

TEST_F(CacheFileTest, IsFinishedWithoutBadSamplesWhenASecondPassBegins) {
  ImageCache cache(params_, context_);
  cache.open();
  pass(cache, 4);
  pass(cache, 1);
  EXPECT_TRUE(fetch(cache, 3));
  EXPECT_FALSE(fetch(cache, 4));
}

// If a partial batch is dropped, its samples of the first pass come from memory in the second.
TEST_F(CacheFileTest, IsFinishedAtTheEndWhereMemoryHasAllOfASecondPass) {
  params_.memory = "1 MiB";
  const auto pass_of = [&](ImageCache& cache) {
    Draw draw(1, {}, 0);
    for (std::uint64_t index = 0; index < 4; ++index) {
      sample_.reset({.epoch = 0, .position = index, .index = index}, {});
      if (cache.fetch(sample_)) continue;
      fill(index);
      static_cast<SampleTransform&>(cache).process(sample_, draw);
    }
  };
  for (const int passes : {1, 2}) {
    ImageCache cache(params_, context_);
    cache.open();
    for (int times = 0; times < passes; ++times) pass_of(cache);
    EXPECT_FALSE(fs::exists(params_.file));
  }
  ImageCache later(params_, context_);
  later.open();
  for (std::uint64_t index = 0; index < 5; ++index) EXPECT_EQ(fetch(later, index), index < 4);
  EXPECT_TRUE(run_.warnings().empty());
}

// In a pass without shuffling its place is bad in each pass, and it never has a first attempt.
TEST_F(CacheFileTest, IsFinishedInASecondPassAlthoughTheFirstToComeWasAReplacement) {
  ImageCache cache(params_, context_);
  cache.open();
  Draw draw(1, {}, 0);
  const auto come = [&](std::uint64_t index, std::uint64_t position, std::uint32_t attempt) {
    fill(index);
    sample_.key.position = position;
    sample_.key.attempt = attempt;
    static_cast<SampleTransform&>(cache).process(sample_, draw);
  };
  for (int times = 0; times < 2; ++times) {
    come(3, 0, 1);
    for (std::uint64_t index = 1; index < 5; ++index) come(index, index, 0);
  }
  EXPECT_TRUE(fs::exists(params_.file));
  EXPECT_TRUE(fetch(cache, 4));
}

TEST_F(CacheFileTest, IsMadeAnewWhenTheDataChanged) {
  write_file();
  context_.fingerprint = 43;
  ImageCache cache(params_, context_);
  cache.open();
  EXPECT_FALSE(fetch(cache, 0));
  ASSERT_EQ(run_.warnings().size(), 1U);
  EXPECT_EQ(run_.warnings()[0],
            "cache file '" + params_.file + "' is rewritten: the data or the stages before the cache have changed");
  pass(cache, 5);
  EXPECT_TRUE(fetch(cache, 0));
}

TEST_F(CacheFileTest, NeverTrustsADamagedFile) {
  write_file();
  const auto expect_nothing_of_it = [&](std::uint64_t where) {
    ImageCache cache(params_, context_);
    cache.open();
    EXPECT_FALSE(fetch(cache, 0)) << where;
  };
  const auto size = fs::file_size(params_.file);
  for (const std::uint64_t at : {std::uint64_t{7}, std::uint64_t{20}, std::uint64_t{30}, size - 3}) {
    std::fstream file(params_.file, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(at));
    file.put('\x7f');
    file.close();
    expect_nothing_of_it(at);
    write_file();
  }
  for (const std::uint64_t bytes : {std::uint64_t{0}, std::uint64_t{10}, size - 1}) {
    fs::resize_file(params_.file, bytes);
    expect_nothing_of_it(bytes);
    write_file();
  }
}

TEST_F(CacheFileTest, WhatIsNoCacheIsLeftAsItIs) {
  fs::create_directories(folder_);
  const std::string path = (folder_ / "precious").string();
  std::ofstream(path) << "years of work";
  params_.file = path;
  EXPECT_THROW(ImageCache(params_, context_).open(), Error);
  EXPECT_EQ(fs::file_size(path), 13U);
  params_.file = folder_.string();
  EXPECT_THROW(ImageCache(params_, context_).open(), Error);
  params_.file = (folder_ / "pipe").string();
  ASSERT_EQ(mkfifo(params_.file.c_str(), 0600), 0);
  EXPECT_THROW(ImageCache(params_, context_).open(), Error);
  EXPECT_TRUE(fs::is_fifo(params_.file));
}

TEST_F(CacheFileTest, AnUnfinishedFileIsRemoved) {
  {
    ImageCache cache(params_, context_);
    cache.open();
    pass(cache, 3);
  }
  EXPECT_TRUE(fs::is_empty(folder_ / "deep"));
}

// As after SIGKILL. A file being written is locked.
TEST_F(CacheFileTest, WhatKilledRunsHaveLeftOfAFileGoesWhenItIsWrittenAgain) {
  fs::create_directories(folder_ / "deep");
  const fs::path left = params_.file + ".4711-0.part", other = folder_ / "deep" / "other.cache.4711-0.part";
  std::ofstream(left) << "MRCACHE4";
  std::ofstream(other) << "MRCACHE4";
  const fs::path owns[] = {params_.file + ".part", params_.file + ".copy.part", params_.file + ".4711-0.part.txt"};
  for (const fs::path& own : owns) std::ofstream(own) << "a user's";
  testkit::RecordedRun another_run;
  ImageCache one(params_, context_);
  context_.run = &another_run;
  ImageCache another(params_, context_);
  context_.run = &run_;
  one.open();
  EXPECT_FALSE(fs::exists(left));
  EXPECT_TRUE(fs::exists(other));
  for (const fs::path& own : owns) EXPECT_TRUE(fs::exists(own)) << own;
  another.open();
  pass(one, 5);
  EXPECT_TRUE(fetch(one, 4)) << "it was still there";
}

// Each looks for abandoned files before it creates its own, which is briefly not locked.
TEST_F(CacheFileTest, WritersThatBeginTogetherLoseNoFile) {
  constexpr int kThreads = 8, kWriters = 50;
  std::atomic<int> finished{0};
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < kThreads; ++i) {
      threads.emplace_back([&] {
        for (int k = 0; k < kWriters; ++k) {
          try {
            finished += CacheWriter(params_.file, 42).finish() ? 1 : 0;
          } catch (const Error& error) {
            ADD_FAILURE() << error.message();
            return;
          }
        }
      });
    }
  }
  EXPECT_EQ(finished, kThreads * kWriters);
}

// In two containers that share a folder, processes may have equal ids.
TEST_F(CacheFileTest, AFileThatSomebodyElseWritesUnderTheNextNameStaysWhole) {
  const auto name = [&](int number) { return fmt::format("{}.{}-{}.part", params_.file, getpid(), number); };
  std::optional<CacheWriter> one(std::in_place, params_.file, 42);
  int number = 0;
  while (!fs::exists(name(number))) ++number;
  one.reset();
  std::ofstream(name(number + 1)) << "another's";
  const int file = ::open(name(number + 1).c_str(), O_RDWR | O_CLOEXEC);
  ASSERT_EQ(::flock(file, LOCK_EX | LOCK_NB), 0);
  CacheWriter another(params_.file, 42);
  EXPECT_EQ(fs::file_size(name(number + 1)), 9U);
  EXPECT_TRUE(fs::exists(name(number + 2)));
  ::close(file);
}

// For example training and validation with a copied table: each run would write the file again.
TEST_F(CacheFileTest, OneFileOfTwoCachesOfARunIsRefused) {
  context_.graph = "train";
  context_.name = "cache";
  ImageCache one(params_, context_);
  one.open();
  Cache::Params same = params_;
  same.file = (folder_ / "deep" / "." / "set.cache").string();
  context_.graph = "validate";
  {
    ImageCache another(same, context_);
    EXPECT_EQ(error_of([&] { another.open(); }),
              "file: '" + same.file + "' is also used by [train.cache]: give each cache its own file");
  }
  same.file += ".of_validate";
  ImageCache own(same, context_);
  own.open();
  testkit::RecordedRun another_run;
  context_.run = &another_run;
  ImageCache of_another_run(params_, context_);
  of_another_run.open();
  context_.run = &run_;
}

// As in runs that begin at the same time.
TEST_F(CacheFileTest, TwoRunsWithOneFileDoNotDisturbEachOther) {
  testkit::RecordedRun another_run;
  ImageCache one(params_, context_);
  context_.run = &another_run;
  context_.fingerprint = 43;
  ImageCache another(params_, context_);
  one.open();
  another.open();
  Draw draw(1, {}, 0);
  for (std::uint64_t index = 0; index < 5; ++index) {
    for (ImageCache* cache : {&one, &another}) {
      fill(index);
      static_cast<SampleTransform&>(*cache).process(sample_, draw);
    }
  }
  for (std::uint64_t index = 0; index < 5; ++index) {
    EXPECT_TRUE(fetch(one, index));
    EXPECT_TRUE(fetch(another, index));
  }
  EXPECT_TRUE(run_.warnings().empty());
  EXPECT_TRUE(another_run.warnings().empty());
  context_.run = &run_;
}

TEST_F(CacheFileTest, AFileOfAnotherGraphsSamplesIsNamed) {
  write_file();
  for (const bool has_one : {true, false}) {
    testkit::RecordedRun run;
    context_.run = &run;
    ImageCache cache(params_, context_);
    cache.open();
    EXPECT_TRUE(!has_one || fetch(cache, 3));
    Draw draw(1, {}, 0);
    for (std::uint64_t index = 10; index < 60; ++index) {
      EXPECT_FALSE(fetch(cache, index));
      fill(index);
      static_cast<SampleTransform&>(cache).process(sample_, draw);
    }
    ASSERT_EQ(run.warnings().size(), has_one ? 0U : 1U);
    const std::string said = has_one ? "" : run.warnings()[0];
    EXPECT_NE(has_one, said.find("' has none of the first 32 images: it was written by another") != std::string::npos) << said;
  }
  context_.run = &run_;
}

TEST_F(CacheFileTest, SourcesThatCannotTellAreRefused) {
  context_.fingerprint = 0;
  ImageCache cache(params_, context_);
  EXPECT_MESSAGE(error_of([&] { cache.open(); }));
}

TEST_F(CacheFileTest, AFolderThatCannotBeWrittenIsNamed) {
  params_.file = "/proc/nothing/set.cache";
  ImageCache cache(params_, context_);
  EXPECT_NE(error_of([&] { cache.open(); }).find("/proc/nothing/set.cache"), std::string::npos);
}

TEST(Entry, KeepsWhatMessagesName) {
  Sample sample, back;
  sample.reset({.index = 3}, {});
  sample.url = "images/a.png";
  sample.member = "a";
  sample.target_url = "labels/a.png";
  std::memset(sample.encoded.resize(5), 7, 5);
  std::vector<std::uint8_t> entry(entry_bytes(sample));
  write_entry(sample, entry.data());
  back.reset({.index = 3}, {});
  ASSERT_TRUE(read_entry(entry, back));
  EXPECT_EQ(back.url, "images/a.png");
  EXPECT_EQ(back.member, "a");
  EXPECT_EQ(back.target_url, "labels/a.png");
}

TEST(Entry, ContradictionsAreRefused) {
  Sample sample;
  sample.reset({.index = 3}, {});
  sample.url = "abc";
  sample.target_url = "de";
  std::memset(sample.encoded.resize(5), 7, 5);
  std::vector<std::uint8_t> good(entry_bytes(sample));
  write_entry(sample, good.data());
  ASSERT_TRUE(read_entry(good, sample));
  for (std::size_t byte = 0; byte < sizeof(EntryHeader); ++byte) {
    for (const int flip : {0x01, 0x80, 0xff}) {
      std::vector<std::uint8_t> entry = good;
      entry[byte] = static_cast<std::uint8_t>(entry[byte] ^ flip);
      read_entry(entry, sample);  // for any content, nothing outside is read (AddressSanitizer checks)
    }
  }
  for (std::size_t bytes = 0; bytes < good.size(); ++bytes)
    EXPECT_FALSE(read_entry(std::span(good).first(bytes), sample)) << bytes;
}

}  // namespace
}  // namespace millrace

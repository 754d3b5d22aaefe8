#include "read_tar_fixture.h"

#include <atomic>
#include <chrono>
#include <filesystem>

#include "testkit/files.h"
#include "testkit/messages.h"

namespace millrace {
namespace {

using testing_tar::TarWriter;

TEST_F(ReadTarTest, CountsSamplesThroughAllShards) {
  folder_.write("s-0.tar",
                TarWriter().file("a.jpg", "one").file("a.cls", "0").file("b.jpg", "two").file("b.cls", "2").end().bytes());
  folder_.write("s-1.tar", TarWriter().end().bytes());
  folder_.write("s-2.tar", TarWriter().file("a.cls", "1").file("a.png", "three").end().bytes());
  const auto source = opened({});
  ASSERT_EQ(source->size(), 3U);
  EXPECT_EQ(read(*source, 0), "a.jpg=one:0");
  EXPECT_EQ(read(*source, 1), "b.jpg=two:2");
  EXPECT_EQ(read(*source, 2), "a.png=three:1");
  EXPECT_EQ(source->classes(), (std::vector<std::string>{"0", "1", "2"}));
  EXPECT_EQ(source->largest_encoded(), 512U + 5U) << "an image is read with its header";
}

TEST_F(ReadTarTest, SaysWhereASampleLies) {
  const std::string url = folder_.write("s.tar", TarWriter().file("dir/a.cls", "0").file("dir/a.jpg", "one").end().bytes());
  Sample sample;
  opened({})->read(sample);
  EXPECT_EQ(sample.url, url);
  EXPECT_EQ(sample.member, "dir/a.jpg");
  EXPECT_EQ(sample.offset, 1536U);
  EXPECT_EQ(sample.place(), url + ": dir/a.jpg");
}

TEST_F(ReadTarTest, ShardsComeInTheOrderOfThePaths) {
  folder_.write("s-0.tar", TarWriter().file("a.jpg", "0").end().bytes());
  folder_.write("s-1.tar", TarWriter().file("b.jpg", "1").end().bytes());
  ReadTar::Params params;
  params.path = folder_ / "s-{0..1}.tar";
  EXPECT_EQ(read(*opened(params), 0), "a.jpg=0:-1");
  params.path.clear();
  params.paths = {folder_ / "s-1.tar", folder_ / "s-0.tar"};
  EXPECT_EQ(read(*opened(params), 0), "b.jpg=1:-1");
}

TEST_F(ReadTarTest, NamesOfClassesAreSortedWhenNobodyGivesThem) {
  folder_.write("s-0.tar", TarWriter().file("a.jpg", "1").file("a.cls", "dog\n").end().bytes());
  folder_.write("s-1.tar", TarWriter().file("b.jpg", "2").file("b.cls", "cat").end().bytes());
  const auto source = opened({});
  EXPECT_EQ(source->classes(), (std::vector<std::string>{"cat", "dog"}));
  EXPECT_EQ(read(*source, 0), "a.jpg=1:1");
  EXPECT_EQ(read(*source, 1), "b.jpg=2:0");
}

TEST_F(ReadTarTest, ClassesOfTheFileBesideTheShardsAreUsed) {
  folder_.write("s.tar", TarWriter().file("a.jpg", "1").file("a.cls", "dog").file("b.jpg", "2").file("b.cls", "2").end().bytes());
  folder_.write("classes.txt", "dog\ncat\r\nbird");
  const auto source = opened({});
  EXPECT_EQ(source->classes(), (std::vector<std::string>{"dog", "cat", "bird"}));
  std::filesystem::remove(folder_ / "classes.txt");
  std::filesystem::create_symlink("gone", folder_ / "classes.txt");
  EXPECT_EQ(error_of({}).kind(), ErrorKind::data) << "not as if there were no such file: " << error_of({}).message();
  EXPECT_EQ(read(*source, 0), "a.jpg=1:0");
  EXPECT_EQ(read(*source, 1), "b.jpg=2:2");
}

TEST_F(ReadTarTest, ClassesOfTheFileBesideTheShardsNameTheNumbersInLabelImages) {
  folder_.write("s.tar", TarWriter().file("a.jpg", "1").file("a.label.png", "mask").end().bytes());
  ReadTar::Params params;
  params.target = "classes";
  EXPECT_EQ(error_of(params).kind(), ErrorKind::usage);
  EXPECT_MESSAGE(error_of(params).message());
  folder_.write("classes.txt", "\xef\xbb\xbfroad\nsky\n\n");
  params.path = folder_.path().string();
  const ReadTar before(params, context_);  // target() is called before the source is opened
  EXPECT_EQ(before.target()->classes[1], 1);
  EXPECT_EQ(before.target()->classes[2], 255);
  EXPECT_EQ(opened(params)->classes(), (std::vector<std::string>{"road", "sky"}));
}

TEST_F(ReadTarTest, ClassesBesideTheShardsMustBeTheSameInAllFolders) {
  for (const char* name : {"a/s.tar", "b/s.tar"}) {
    folder_.write(name, TarWriter().file("1.jpg", "1").file("1.cls", "1").end().bytes());
  }
  folder_.write("b/classes.txt", "cat\ndog\n");
  EXPECT_EQ(opened({})->classes(), (std::vector<std::string>{"cat", "dog"}));
  folder_.write("a/classes.txt", "cat\ndog\n");
  EXPECT_EQ(opened({})->classes(), (std::vector<std::string>{"cat", "dog"}));
  folder_.write("a/classes.txt", "dog\ncat\n");
  EXPECT_EQ(error_of({}).kind(), ErrorKind::data);
  EXPECT_EQ(error_of({}).message().find("'" + folder_ / "b/classes.txt" + "' and '"), 0U);
  folder_.write("a/classes.txt", "cat\ncat\n");
  EXPECT_EQ(error_of({}).message(), folder_ / "a/classes.txt" + ":2: class 'cat' is in line 1 already");
}

TEST_F(ReadTarTest, GivenClassesComeFirst) {
  folder_.write("s.tar", TarWriter().file("a.jpg", "1").file("a.cls", "dog").end().bytes());
  folder_.write("classes.txt", "dog\n");
  ReadTar::Params params;
  params.classes = {"cat", "dog"};
  EXPECT_EQ(read(*opened(params), 0), "a.jpg=1:1");
  params.classes = {"cat", "bird"};
  EXPECT_EQ(error_of(params).kind(), ErrorKind::data);
  EXPECT_MESSAGE(error_of(params).message());
}

// pipeline-data pack writes numbers, and their meaning into classes.txt. Weights may have the classes in another order.
TEST_F(ReadTarTest, NumbersAreLinesOfTheFileBesideTheShardsWhateverOrderIsGiven) {
  folder_.write("s.tar", TarWriter().file("a.jpg", "1").file("a.cls", "0").file("b.jpg", "2").file("b.cls", "1").end().bytes());
  folder_.write("classes.txt", "dog\ncat\n");
  ReadTar::Params params;
  EXPECT_EQ(read(*opened(params), 0), "a.jpg=1:0");
  params.classes = {"cat", "owl", "dog"};
  EXPECT_EQ(read(*opened(params), 0), "a.jpg=1:2");
  EXPECT_EQ(read(*opened(params), 1), "b.jpg=2:0");
  params.classes = {"Hund", "Katze"};
  EXPECT_EQ(read(*opened(params), 1), "b.jpg=2:1");
  EXPECT_MESSAGE(run_.warnings().back());
  params.classes = {"dog", "owl"};
  EXPECT_MESSAGE(error_of(params).message());
}

TEST_F(ReadTarTest, PixelsHaveTheNumbersOfTheLinesToo) {
  folder_.write("s.tar", TarWriter().file("a.jpg", "1").file("a.label.png", "mask").end().bytes());
  folder_.write("classes.txt", "road\nsky\nsea\n");
  ReadTar::Params params;
  params.target = "classes";
  params.classes = {"sky", "road"};
  const auto target = opened(params)->target();
  EXPECT_EQ(target->classes[0], 1);
  EXPECT_EQ(target->classes[1], 0);
  EXPECT_EQ(target->classes[2], 255);
}

TEST_F(ReadTarTest, LabelsAreAllNamesOrAllPositions) {
  const auto labels = [&](const char* first, const char* second, std::vector<std::string> classes) {
    folder_.write("s.tar",
                  TarWriter().file("a.jpg", "1").file("a.cls", first).file("b.jpg", "2").file("b.cls", second).end().bytes());
    ReadTar::Params params;
    params.classes = std::move(classes);
    const auto source = opened(params);
    return std::pair(source->label(0), source->label(1));
  };
  EXPECT_EQ(labels("2", "3", {"1", "2", "3"}), std::pair(1, 2));
  EXPECT_MESSAGE(run_.warnings().back());
  EXPECT_EQ(labels("0", "2", {"1", "2", "3"}), std::pair(0, 2));
  EXPECT_MESSAGE(run_.warnings()[run_.warnings().size() - 2]);
  EXPECT_EQ(labels("007", "010", {"007", "010"}), std::pair(0, 1)) << "names";
  EXPECT_EQ(labels("000", "001", {"cat", "dog"}), std::pair(0, 1));
  EXPECT_THROW(labels("0", "dog", {"cat", "dog"}), Error);
}

TEST_F(ReadTarTest, LabelsOutsideTheClassesAreAMistakeInTheData) {
  folder_.write("s.tar", TarWriter().file("a.jpg", "1").file("a.cls", "2").end().bytes());
  ReadTar::Params params;
  params.classes = {"cat", "dog"};
  EXPECT_MESSAGE(error_of(params).message());
}

TEST_F(ReadTarTest, NumbersAndNamesTogetherNeedClasses) {
  folder_.write("s.tar", TarWriter().file("a.jpg", "1").file("a.cls", "2").file("b.jpg", "1").file("b.cls", "dog").end().bytes());
  EXPECT_MESSAGE(error_of({}).message());
}

// A set with unreadable labels is not a set without labels; nor is one whose labels were named.
TEST_F(ReadTarTest, LabelsThatNobodyCanReadAreMissed) {
  folder_.write("s.tar", TarWriter().file("a.jpg", "1").file("a.cls", "-1").file("b.jpg", "2").file("b.cls", "").end().bytes());
  EXPECT_MESSAGE(read(*opened({}), 0));
  folder_.write("s.tar", TarWriter().file("a.jpg", "1").file("a.json", "{\"label\": 1}").end().bytes());
  ReadTar::Params params;
  params.label = "lable";
  EXPECT_MESSAGE(read(*opened(params), 0));
}

TEST_F(ReadTarTest, SamplesThatLackSomethingAreBadOnes) {
  folder_.write("s.tar", TarWriter()
                             .file("a.jpg", "1")
                             .file("a.cls", "0")
                             .file("b.cls", "0")
                             .file("c.jpg", "3")
                             .file("d.jpg", "")
                             .file("d.cls", "0")
                             .file("e.jpg", "5")
                             .file("e.cls", "")
                             .end()
                             .bytes());
  const auto source = opened({});
  ASSERT_EQ(source->size(), 5U);
  EXPECT_EQ(read(*source, 0), "a.jpg=1:0");
  EXPECT_MESSAGE(read(*source, 1));
  EXPECT_MESSAGE(read(*source, 2));
  EXPECT_MESSAGE(read(*source, 3));
  EXPECT_MESSAGE(read(*source, 4));
}

TEST_F(ReadTarTest, WithoutAnyLabelsNoneIsMissed) {
  folder_.write("s.tar", TarWriter().file("a.jpg", "1").end().bytes());
  EXPECT_EQ(read(*opened({}), 0), "a.jpg=1:-1");
}

TEST_F(ReadTarTest, LabelsAreLeftAloneWhenNoneAreWanted) {
  folder_.write("s.tar", TarWriter().file("a.jpg", "1").file("a.cls", "dog").file("b.jpg", "2").file("b.cls", "7").end().bytes());
  folder_.write("t.tar", TarWriter().file("c.jpg", "3").end().bytes());
  folder_.write("classes.txt", "cat\n");
  ReadTar::Params params;
  params.labels = "none";
  const auto source = opened(params);
  EXPECT_TRUE(source->classes().empty());
  EXPECT_EQ(read(*source, 0), "a.jpg=1:-1");
  EXPECT_EQ(read(*source, 1), "b.jpg=2:-1");
  EXPECT_EQ(read(*source, 2), "c.jpg=3:-1");
  params.classes = {"cat", "bird"};
  EXPECT_EQ(opened(params)->classes(), (std::vector<std::string>{"cat", "bird"}));
  params.label = "kind";
  EXPECT_MESSAGE(error_of(params).message());
}

TEST_F(ReadTarTest, NumbersToBePredictedComeFromJson) {
  folder_.write("s.tar", TarWriter().file("a.jpg", "1").file("a.json", R"({"y": [0.5, 2]})").end().bytes());
  ReadTar::Params params;
  params.numbers = "y";
  const auto source = opened(params);
  EXPECT_EQ(source->numbers(), 2U);
  Sample sample;
  source->read(sample);
  EXPECT_EQ(sample.numbers, (std::vector<float>{0.5F, 2}));
}

TEST_F(ReadTarTest, TargetsLieBesideTheImages) {
  folder_.write(
      "s.tar",
      TarWriter().file("a.jpg", "1").file("a.label.png", "mask").file("b.jpg", "2").file("b.seg.png", "other").end().bytes());
  ReadTar::Params params;
  params.classes = {"road", "sky"};
  params.target = "classes";
  const auto source = opened(params);
  ASSERT_TRUE(source->target());
  EXPECT_EQ(source->target()->kind, TargetSpec::Kind::classes);
  EXPECT_EQ(source->target()->classes[1], 1);
  EXPECT_EQ(source->target()->classes[2], 255);
  EXPECT_EQ(source->target()->scale, 1);
  Sample sample;
  source->read(sample);
  EXPECT_EQ(std::string(sample.encoded_target.data(), sample.encoded_target.data() + sample.encoded_target.size()), "mask");
  EXPECT_MESSAGE(read(*source, 1));
  params.target_name = "seg";
  EXPECT_EQ(read(*opened(params), 1), "b.jpg=2:-1");
  params.target_scale = 3;
  EXPECT_EQ(opened(params)->target()->scale, 3);
}

TEST_F(ReadTarTest, WhatHasNoEffectIsSaid) {
  folder_.write("s.tar", TarWriter().file("a.jpg", "1").end().bytes());
  ReadTar::Params params;
  params.classes = {"road", "sky"};
  opened(params);
  EXPECT_MESSAGE(run_.warnings().back());
  params.target_scale = 2;
  EXPECT_MESSAGE(error_of(params).message());
  params.target_name = "seg";
  EXPECT_EQ(error_of(params).kind(), ErrorKind::usage);
  EXPECT_MESSAGE(error_of(params).message());
}

TEST_F(ReadTarTest, NamesTheShardThatIsDamaged) {
  folder_.write("s-0.tar", TarWriter().file("a.jpg", "1").end().bytes());
  folder_.write("s-1.tar", TarWriter().file("b.jpg", std::string(600, 'x')).end().bytes().substr(0, 900));
  const Error error = error_of({});
  EXPECT_EQ(error.kind(), ErrorKind::data);
  EXPECT_MESSAGE(error.what());
}

TEST_F(ReadTarTest, WithoutImagesThereIsNothingToRead) {
  folder_.write("s.tar", TarWriter().file("a.txt", "1").end().bytes());
  EXPECT_EQ(error_of({}).kind(), ErrorKind::data);
  EXPECT_MESSAGE(error_of({}).message());
}

TEST_F(ReadTarTest, PathAndPathsExcludeEachOther) {
  EXPECT_THROW(ReadTar({}, context_), Error);
  ReadTar::Params both;
  both.path = "a.tar";
  both.paths = {"b.tar"};
  EXPECT_MESSAGE(error_of(both).message());
}

TEST_F(ReadTarTest, ASchemeThatNobodyKnowsIsFoundBeforeAnythingIsRead) {
  ReadTar::Params params;
  params.path = "gopher://a.tar";
  try {
    ReadTar source(params, context_);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::usage);
  }
}

TEST_F(ReadTarTest, AMissingFolderIsFoundBeforeAnythingIsRead) {
  for (const char* path : {"/s.tar", "/*.tar", ""}) {
    ReadTar::Params params;
    params.path = folder_ / "missing" + path;
    EXPECT_THROW(ReadTar(params, context_), Error) << params.path;
  }
}

TEST_F(ReadTarTest, AShardThatShrankIsAStorageFault) {
  folder_.write("s.tar", TarWriter().file("a.jpg", std::string(600, 'x')).end().bytes());
  const auto source = opened({});
  folder_.write("s.tar", "");
  Sample sample;
  try {
    source->read(sample);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::storage);
  }
}

// The labels are those of the listed shard.
TEST_F(ReadTarTest, AShardThatIsReplacedWhileItIsReadEndsTheRun) {
  const auto pack = [&](const std::vector<std::string>& names) {
    TarWriter shard;
    for (const std::string& name : names) shard.file(name + ".cls", name).file(name + ".jpg", "image of " + name);
    folder_.write("s.tar", shard.end().bytes());
  };
  pack({"cat", "dog", "fox"});
  const auto source = opened({});
  EXPECT_MESSAGE(read(*source, 2));
  folder_.write("s.tar",
                TarWriter().file("ape.jpg", std::string(3000, 'x')).file("bee.jpg", std::string(3000, 'x')).end().bytes());
  for (const std::uint64_t index : {0U, 1U, 2U}) {
    Sample sample;
    sample.key.index = index;
    const Error error = testkit::error_of(ErrorKind::data, [&] { source->read(sample); });
    EXPECT_NE(error.message().find("s.tar' has changed since it was listed: no member of 12 bytes begins at byte "),
              std::string::npos)
        << error.message();
  }
}

// All of its members have the same sizes, and only their labels differ.
TEST_F(ReadTarTest, AShardThatIsReplacedByOneOfTheSameSizesEndsTheRun) {
  int seconds = 0;
  const auto pack = [&](const std::vector<std::string>& names) {
    TarWriter shard;
    for (const std::string& name : names) shard.file(name + ".cls", name).file(name + ".jpg", "image of " + name);
    folder_.write("s.tar", shard.end().bytes());
    const auto now = std::filesystem::file_time_type::clock::now();
    std::filesystem::last_write_time(folder_ / "s.tar", now + std::chrono::seconds(++seconds));
  };
  pack({"cat", "dog", "fox"});
  const auto source = opened({});
  const auto read_twice = [&] {
    for (const std::uint64_t index : {0U, 1U, 2U, 0U, 1U, 2U}) read(*source, index);
  };
  pack({"cat", "dog", "fox"});
  EXPECT_NO_THROW(read_twice()) << "it was copied once more";
  pack({"ape", "bee", "cow"});
  const Error error = testkit::error_of([&] {
    Sample sample;
    for (sample.key.index = 0; sample.key.index < 3; ++sample.key.index) source->read(sample);
  });
  EXPECT_EQ(error.kind(), ErrorKind::data);
  EXPECT_NE(error.message().find("s.tar' has changed since it was listed, so its labels may have changed too"), std::string::npos)
      << error.message();
}

TEST_F(ReadTarTest, FingerprintsTellShardsApart) {
  folder_.write("s.tar", TarWriter().file("a.jpg", "1").end().bytes());
  const std::uint64_t first = opened({})->fingerprint();
  EXPECT_NE(first, 0U);
  EXPECT_EQ(opened({})->fingerprint(), first);
  ReadTar::Params clean, dirty;
  clean.target = dirty.target = "image";
  clean.target_name = "clean";
  dirty.target_name = "dirty";
  EXPECT_NE(opened(clean)->fingerprint(), opened(dirty)->fingerprint()) << "a cache holds these targets or those";
  const std::filesystem::path again = folder_.write("s.tar", TarWriter().file("a.jpg", "2").end().bytes());
  last_write_time(again, last_write_time(again) + std::chrono::seconds(1));  // on many systems this clock ticks in milliseconds
  EXPECT_NE(opened({})->fingerprint(), first);
}

TEST_F(ReadTarTest, TheListingsHashFollowsNamesAndLabelsWhereverTheShardsLie) {
  std::filesystem::create_directories(folder_.path() / "there");
  const auto hash = [&](const std::string& place, const std::string& bytes, const ReadTar::Params& more = {}) {
    ReadTar::Params params = more;
    params.path = folder_.write(place, bytes);
    return opened(params)->listing_hash();
  };
  const auto shard = [](const std::string& name, const std::string& label, const std::string& image = "1") {
    return TarWriter().file(name + ".jpg", image).file(name + ".cls", label).file("z.jpg", "2").file("z.cls", "b").end().bytes();
  };
  const std::uint64_t first = hash("s.tar", shard("a", "c"));
  EXPECT_EQ(hash("there/s.tar", shard("a", "c", "another image")), first);
  EXPECT_NE(hash("s-1.tar", shard("b", "c")), first) << "another name";
  EXPECT_NE(hash("s-2.tar", shard("a", "b")), first) << "another label";
  EXPECT_NE(hash("t.tar", shard("a", "c")), first) << "another shard";
  ReadTar::Params numbers;
  numbers.numbers = "x";
  const auto with_number = [](const char* json) { return TarWriter().file("a.jpg", "1").file("a.json", json).end().bytes(); };
  EXPECT_NE(hash("there/n.tar", with_number("{\"x\": 1}"), numbers), hash("n.tar", with_number("{\"x\": 2}"), numbers));
}

}  // namespace
}  // namespace millrace

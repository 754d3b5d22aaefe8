#include "mix.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "millrace/plugin.h"
#include "millrace/util/load_plugins.h"
#include "testkit/files.h"
#include "testkit/harness.h"
#include "testkit/messages.h"

namespace millrace {
namespace {

using Texts = std::vector<std::string>;
using testkit::table;

class MixTest : public testing::Test {
 protected:
  MixTest() {
    for (const char* name : {"storage_file", "read_folder", "read_list", "read_pairs"}) {
      load_plugin(registry_, fmt::format("{}/{}.so", MILLRACE_PLUGINS, name));
    }
    context_.graph = "train";
    context_.name = "read";
    context_.registry = &registry_;
    context_.run = &run_;
    folder_.write("photos/cat/1.jpg", "photo of a cat");
    folder_.write("photos/dog/1.jpg", "photo of a dog");
    folder_.write("drawings/ant/1.jpg", "drawing of an ant");
    folder_.write("drawings/dog/1.jpg", "drawing of a dog");
    folder_.write("list.csv", "file_name,label\nphotos/dog/1.jpg,dog\nphotos/cat/1.jpg,cat\nphotos/dog/1.jpg,dog\n");
    folder_.write("numbers.csv", "file_name,x\nphotos/dog/1.jpg,1\n");
  }

  Value folder(const std::string& name) const {
    return table({{"stage", Value("read_folder")}, {"path", Value(folder_ / name)}});
  }
  Value list(const std::string& name = "list.csv") const {
    return table({{"stage", Value("read_list")}, {"path", Value(folder_ / name)}});
  }
  static Value with(Value source, const char* key, Value value) {
    source.set(key, std::move(value));
    return source;
  }
  std::shared_ptr<Mix> made(Array sources) {
    Mix::Params params;
    params.sources = Value(std::move(sources));
    return std::make_shared<Mix>(params, context_);
  }
  std::shared_ptr<Mix> opened(Array sources) {
    const auto mix = made(std::move(sources));
    mix->open();
    return mix;
  }
  std::string refusal(Array sources, ErrorKind kind = ErrorKind::usage) {
    const Error error = testkit::error_of([&] { opened(std::move(sources)); });
    EXPECT_EQ(error.kind(), kind);
    return error.what();
  }
  // "bytes:label" of each sample.
  static Texts samples(Mix& mix) {
    Texts result;
    Sample sample;
    for (std::uint64_t index = 0; index < mix.size(); ++index) {
      testkit::read(mix, index, sample);
      EXPECT_EQ(sample.key.index, index);
      EXPECT_EQ(sample.label, mix.label(index));
      EXPECT_LE(sample.encoded.size(), mix.largest_encoded());
      result.push_back(testkit::text(sample.encoded) + ":" + std::to_string(sample.label));
    }
    return result;
  }

  testkit::TestFolder folder_;
  Registry registry_;
  testkit::RecordedRun run_;
  StepContext context_;
};

TEST_F(MixTest, HasTheSamplesOfAllSourcesOneAfterTheOther) {
  const auto mix = opened({folder("photos"), list()});
  EXPECT_EQ(samples(*mix),
            (Texts{"photo of a cat:0", "photo of a dog:1", "photo of a dog:1", "photo of a cat:0", "photo of a dog:1"}));
  EXPECT_EQ(mix->classes(), (Texts{"cat", "dog"}));
}

TEST_F(MixTest, UnitesClassesByName) {
  const auto mix = opened({folder("photos"), folder("drawings")});
  EXPECT_EQ(mix->classes(), (Texts{"ant", "cat", "dog"}));
  EXPECT_EQ(samples(*mix), (Texts{"photo of a cat:1", "photo of a dog:2", "drawing of an ant:0", "drawing of a dog:2"}));
}

TEST_F(MixTest, KeepsAnOrderOfClassesThatAllSourcesHave) {
  const Value order(Array{Value("dog"), Value("cat")});
  const auto mix = opened({with(folder("photos"), "classes", order), with(list(), "classes", order)});
  EXPECT_EQ(mix->classes(), (Texts{"dog", "cat"}));
  EXPECT_EQ(samples(*mix)[0], "photo of a cat:1");
}

TEST_F(MixTest, SaysHowOftenEachPartComesOnceAWeightIsGiven) {
  EXPECT_TRUE(opened({folder("photos"), list()})->parts().empty());
  const auto parts = opened({with(folder("photos"), "weight", Value(2.5)), list()})->parts();
  ASSERT_EQ(parts.size(), 2U);
  EXPECT_EQ(parts[0].size, 2U);
  EXPECT_EQ(parts[0].weight, 2.5);
  EXPECT_EQ(parts[1].size, 3U);
  EXPECT_EQ(parts[1].weight, 1);
}

TEST_F(MixTest, ABadSampleKeepsItsIndexAndLabel) {
  folder_.write("drawings/dog/1.jpg", "");
  const auto mix = opened({folder("photos"), folder("drawings")});
  Sample sample;
  const Error error = testkit::error_of([&] { testkit::read(*mix, 3, sample); });
  EXPECT_EQ(error.kind(), ErrorKind::content);
  EXPECT_EQ(sample.key.index, 3U);
  EXPECT_EQ(sample.label, 2);
}

TEST_F(MixTest, HasTheFingerprintsOfAllSources) {
  const auto fingerprint = [&] { return opened({folder("photos"), folder("drawings")})->fingerprint(); };
  const std::uint64_t first = fingerprint();
  EXPECT_EQ(fingerprint(), first);
  EXPECT_NE(opened({folder("drawings"), folder("photos")})->fingerprint(), first);
  folder_.write("drawings/dog/1.jpg", "another drawing");
  EXPECT_NE(fingerprint(), first);
}

TEST_F(MixTest, HasTheListingsOfAllSourcesInTheirOrder) {
  namespace fs = std::filesystem;
  const auto hash = [&](const std::string& place) {
    return opened({folder(place + "photos"), folder(place + "drawings")})->listing_hash();
  };
  const std::uint64_t first = hash("");
  fs::create_directory(folder_ / "there");
  for (const char* name : {"photos", "drawings"})
    fs::copy(folder_ / name, folder_ / (std::string("there/") + name), fs::copy_options::recursive);
  EXPECT_EQ(hash("there/"), first);
  EXPECT_NE(opened({folder("drawings"), folder("photos")})->listing_hash(), first);
  fs::rename(folder_ / "drawings/dog/1.jpg", folder_ / "drawings/dog/2.jpg");
  EXPECT_NE(hash(""), first);
  fs::rename(folder_ / "there/drawings/dog/1.jpg", folder_ / "there/drawings/ant/2.jpg");
  EXPECT_NE(hash("there/"), first) << "another class";
}

TEST_F(MixTest, ReportsEveryMistakeAtItsPlace) {
  const auto file = std::make_shared<const std::string>("p.toml");
  Value first = folder("photos"), second = folder("drawings"), third(3);
  const auto add = [&](Value& to, const char* key, Value value, int line) {
    const Position at{file, line, 1};
    value.set_position(at);
    to.set(key, std::move(value));
    to.table().back().at = at;
  };
  add(first, "shuffle", Value("once"), 2);
  add(first, "limit", Value(5), 3);
  add(first, "pth", Value("x"), 4);
  second.erase("stage");
  add(second, "balance", Value(true), 7);
  add(second, "stage", Value("read_foldr"), 8);
  add(second, "weight", Value(-1), 9);
  third.set_position(Position{file, 10, 1});
  EXPECT_MESSAGE(refusal({first, second, third}));
}

TEST_F(MixTest, NeedsSources) {
  EXPECT_MESSAGE(refusal({}));
  Mix::Params params;
  params.sources = Value(3);
  const Error error = testkit::error_of([&] { Mix(params, context_); });
  EXPECT_MESSAGE(error.message());
}

TEST_F(MixTest, NamesTheSourceThatFails) {
  EXPECT_EQ(refusal({folder("photos"), folder("drwings")}, ErrorKind::data),
            fmt::format("sources[1]: path: '{}' does not exist: 'drwings' is missing in '{}' (did you mean 'drawings'?)",
                        folder_ / "drwings", folder_.path().string()));
  std::filesystem::create_directories(folder_ / "empty");
  EXPECT_EQ(refusal({folder("empty")}, ErrorKind::data).find("sources[0]: folder"), 0U);
}

TEST_F(MixTest, RefusesSourcesThatDoNotFitTogether) {
  const Value numbers = with(list("numbers.csv"), "numbers", Value(Array{Value("x")}));
  EXPECT_MESSAGE(refusal({folder("photos"), numbers}));
  const Value pairs = table({{"stage", Value("read_pairs")}, {"images", Value(folder_ / "photos")}});
  EXPECT_MESSAGE(refusal({folder("photos"), pairs}));
  EXPECT_EQ(opened({pairs, pairs})->target()->kind, TargetSpec::Kind::image);
}

TEST_F(MixTest, RefusesLabelImagesWithOtherClasses) {
  folder_.write("labels/cat/1.png");
  folder_.write("labels/dog/1.png");
  const auto pairs = [&](const char* name, int id) {
    return table({{"stage", Value("read_pairs")},
                  {"images", Value(folder_ / "photos")},
                  {"labels", Value(folder_ / "labels")},
                  {"classes", Value(Array{table({{"name", Value(name)}, {"ids", Value(Array{Value(id)})}})})}});
  };
  EXPECT_EQ(opened({pairs("sky", 0), pairs("sky", 0)})->classes(), Texts{"sky"});
  EXPECT_MESSAGE(refusal({pairs("sky", 0), pairs("sky", 1)}));
  EXPECT_MESSAGE(refusal({pairs("sky", 0), with(pairs("sky", 0), "target_scale", Value(2))}));
  EXPECT_MESSAGE(refusal({pairs("sky", 0), pairs("sea", 0)}));
}

TEST_F(MixTest, HandsOnTheColoursOfTheFirstSourceThatNamesThem) {
  folder_.write("labels/cat/1.png");
  folder_.write("labels/dog/1.png");
  const auto pairs = [&](const char* colour) {
    return table({{"stage", Value("read_pairs")},
                  {"images", Value(folder_ / "photos")},
                  {"labels", Value(folder_ / "labels")},
                  {"classes", Value(Array{table({{"name", Value("sky")}, {"colour", Value(colour)}})})}});
  };
  EXPECT_EQ(opened({pairs(""), pairs("#808080"), pairs("#000000")})->colours(), Texts{"#808080"});
  EXPECT_TRUE(opened({pairs(""), pairs("")})->colours().empty());
}

}  // namespace
}  // namespace millrace

// Beginners' mistakes with which training would run: each is refused, or warned about once with the remedy, before training.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <png_file.h>

#include <fstream>
#include <functional>

#include "command.h"
#include "testkit/messages.h"

namespace millrace::test {
namespace {

namespace fs = std::filesystem;

constexpr int kSide = 32;

constexpr const char* kClassify = R"([run]
name    = "t"
epochs  = 1
folder  = ""
devices = "cpu"
[network]
use     = "quickstart"
classes = 3
[train]
flow = ["read", "decode_image", "batch", "forward_backward", "optimizer", "metrics"]
[train.read]
stage   = "read_folder"
path    = "ROOT/train"
shuffle = "every-epoch"
[train.decode_image]
size = [32, 32]
[train.batch]
size = 6
[train.optimizer]
learning_rate = 0.05
[validate]
every = "epoch"
flow  = ["read", "decode_image", "batch", "forward", "metrics", "write_evaluation"]
[validate.read]
stage = "read_folder"
path  = "ROOT/val"
[validate.decode_image]
size = [32, 32]
[validate.batch]
size = 6
last = "keep"
[validate.write_evaluation]
folder = "ROOT/evaluation"
)";

constexpr const char* kSegment = R"([run]
name    = "s"
epochs  = 1
folder  = ""
devices = "cpu"
[network]
use     = "unet"
filters = 4
classes = 2
height  = 32
width   = 32
[train]
flow = ["read", "decode_image", "batch", "forward_backward", "optimizer", "metrics"]
[train.read]
stage   = "read_pairs"
images  = "ROOT/images"
labels  = "ROOT/masks"
shuffle = "every-epoch"
classes = [{ name = "ground" }, { name = "object" }]
[train.decode_image]
size = [32, 32]
[train.batch]
size = 4
[train.forward_backward]
loss = "pixel_cross_entropy"
[train.optimizer]
learning_rate = 0.01
)";

// Stripes whose width depends on the class, with different brightness in each image.
void draw_image(const fs::path& path, int stripe, int number) {
  std::vector<std::uint8_t> pixels;
  for (int i = 0; i < kSide * kSide; ++i) {
    const int level = (i % kSide / stripe % 2 == 0 ? 20 : 180) + number;
    for (int channel = 0; channel < 3; ++channel) pixels.push_back(static_cast<std::uint8_t>(level));
  }
  fs::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary) << png_bytes({pixels.data(), {kSide, kSide, 3}});
}

void draw_mask(const fs::path& path, std::uint8_t left, std::uint8_t right) {
  std::vector<std::uint8_t> values;
  for (int i = 0; i < kSide * kSide; ++i) values.push_back(i % kSide < kSide / 2 ? left : right);
  fs::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary) << png_bytes({values.data(), {kSide, kSide, 1}});
}

void draw_classes(const fs::path& root) {
  int number = 0;
  for (const auto& [part, count] : {std::pair("train", 8), std::pair("val", 3)}) {
    for (const auto& [name, stripe] : {std::pair("ash", 2), std::pair("birch", 4), std::pair("cedar", 8)}) {
      for (int i = 0; i < count; ++i) draw_image(root / part / name / fmt::format("{}-{}.png", part, i), stripe, number++);
    }
  }
}

void draw_masks(const fs::path& root, std::uint8_t left, std::uint8_t right) {
  for (int i = 0; i < 8; ++i) {
    draw_image(root / "images" / fmt::format("{}.png", i), 16, i);
    draw_mask(root / "masks" / fmt::format("{}.png", i), left, right);
  }
}

// A photograph of another size than the network's.
void draw_large_image(const fs::path& path, int side) {
  const std::vector<std::uint8_t> pixels(static_cast<std::size_t>(3 * side * side), 90);
  std::ofstream(path, std::ios::binary) << png_bytes({pixels.data(), {side, side, 3}});
}

// A network in other programs' notation.
void write_network_that_ends_with(const char* layer, const fs::path& file) {
  std::ofstream(file) << "input  = { channels = 3, height = 32, width = 32 }\n"
                         "layers = [ { op = \"global_average_pool\" }, { op = \"linear\", out = \"${classes}\" }, { op = \""
                      << layer << "\" } ]\n";
}

// A list of the training images first ... last of each class, by name or by integers starting at `base`.
void list_images(const fs::path& list, int first, int last, int base = -1) {
  std::ofstream rows(list);
  rows << "file_name,label\n";
  for (const std::string name : {"ash", "birch", "cedar"}) {
    for (int i = first; i <= last; ++i)
      rows << fmt::format("train/{}/train-{}.png,{}\n", name, i, base < 0 ? name : std::to_string(base));
    base += base < 0 ? 0 : 1;
  }
}

void flatten(const fs::path& part) {  // images of all classes lie directly in the part's folder
  for (const fs::path& folder : {part / "ash", part / "birch", part / "cedar"}) {
    for (const auto& file : fs::directory_iterator(folder))
      fs::rename(file, part / fmt::format("{}-{}", folder.filename().string(), file.path().filename().string()));
    fs::remove(folder);
  }
}

using Changes = std::vector<std::pair<std::string, std::string>>;
using Change = std::function<void(const fs::path& root)>;

struct Trap {
  const char* name;
  int code;
  Changes changes = {};  // to the file
  Change data = {};      // to correct data
  const char* file = kClassify;
};

const std::vector<Trap>& traps() {
  const auto size_of_validation = [](const std::string& now) {
    return std::pair<std::string, std::string>("[validate.decode_image]\nsize = [32, 32]", "[validate.decode_image]\n" + now);
  };
  const std::pair<std::string, std::string> list = {"read_folder\"\npath    = \"ROOT/train",
                                                    "read_list\"\npath    = \"ROOT/train.csv"},
                                            untested = {"every = \"epoch\"", "every = \"never\""};
  const std::pair<std::string, std::string> both = {"ROOT/val\"", "ROOT/train\"\npart = [0.5, 1]"};
  static const std::vector<Trap> all = [&] {
    std::vector<Trap> made;
    const auto trap = [&](const char* name, int code, const Changes& changes = {}, const Change& data = {},
                          const char* file = kClassify) {
      made.push_back({name, code, changes, data, file});
    };
    trap("OutputsThatNoClassHas", 0, {{"classes = 3", "classes = 1000"}});
    trap("TooFewOutputs", 2, {{"classes = 3", "classes = 2"}});
    trap("AFolderOneLevelTooHigh", 3, {{"ROOT/train", "ROOT"}, {"ROOT/val", "ROOT"}, {"classes = 3", "classes = 2"}});
    trap("PartsWithoutClasses", 3, {{"ROOT/train", "ROOT"}, {"ROOT/val", "ROOT"}, {"classes = 3", "classes = 2"}},
         [](const fs::path& root) { flatten(root / "train"), flatten(root / "val"); });
    trap("ValidationOnTrainingImages", 0, {{"ROOT/val", "ROOT/train"}});
    trap("PartsThatOverlap", 0, {both, {"shuffle", "part = [0, 0.75]\nshuffle"}});
    trap("ACopyOfTrainingImages", 0, {}, [](const fs::path& root) {
      fs::remove_all(root / "val");
      fs::copy(root / "train", root / "val", fs::copy_options::recursive);
    });
    trap("TwoListsOfTheSameFiles", 0, {list, {"read_folder\"\npath  = \"ROOT/val", "read_list\"\npath  = \"ROOT/val.csv"}},
         [](const fs::path& root) { list_images(root / "train.csv", 0, 3), list_images(root / "val.csv", 3, 3); });
    trap("AFewTrainingImagesAmongOthers", 0, {},
         [](const fs::path& root) { fs::copy(root / "train/ash/train-3.png", root / "val/cedar/x.png"); });
    trap("ImagesOfWhichTheNetworkSeesAQuarter", 0,
         {size_of_validation("size = [64, 64]\nfit = \"exact\""),
          {"[train.decode_image]\nsize = [32, 32]", "[train.decode_image]\nsize = [64, 64]\nfit = \"exact\""}});
    trap("AnotherSizeInValidation", 0, {size_of_validation("size = [64, 64]\nfit = \"exact\"")});
    trap(
        "AnotherShortSideInValidation", 0,
        {size_of_validation("size = [32, 32]\nshort_side = 64\ncrop = \"centre\""),
         {"[train.decode_image]\nsize = [32, 32]", "[train.decode_image]\nsize = [32, 32]\nshort_side = 32\ncrop = \"centre\""}});
    trap("PartsSwapped", 0, {{"ROOT/val\"", "ROOT/train\"\npart = [0, 0.75]"}, {"shuffle", "part = [0.75, 1]\nshuffle"}});
    trap("ARandomValidation", 0,
         {{"\"decode_image\", \"batch\", \"forward\"", "\"decode_image\", \"augment\", \"batch\", \"forward\""},
          {"\"decode_image\", \"batch\"", "\"decode_image\", \"augment\", \"batch\""},
          {"[train.batch]", "[train.augment]\nflip_x = 0.5\n[validate.augment]\nflip_x = 0.5\n[train.batch]"}});
    trap("OneClass", 3, {}, [](const fs::path& root) {
      for (const char* name : {"train/birch", "train/cedar", "val/birch", "val/cedar"}) fs::remove_all(root / name);
    });
    trap("ATestSetAmongTheClasses", 0, {}, [](const fs::path& root) {
      for (const char* part : {"train", "val"}) fs::rename(root / part / "cedar", root / part / "test");
    });
    trap("AClassOfOneImage", 0, {}, [](const fs::path& root) {
      for (int i = 1; i < 8; ++i) fs::remove(root / fmt::format("train/birch/train-{}.png", i));
    });
    trap("AClassThatLimitLeavesOut", 0, {{"shuffle", "limit = 2\nshuffle"}, {"size = 6", "size = 2"}});
    trap("AClassThatTrainingHasNot", 0, {{"classes = 3", "classes = 4"}},
         [](const fs::path& root) { draw_image(root / "val/yew/1.png", 1, 99); });
    trap("OneImageInTwoClasses", 0, {},
         [](const fs::path& root) { fs::copy(root / "train/ash/train-3.png", root / "train/cedar/x.png"); });
    trap("ARareClass", 0, {{"size = 6", "size = 2"}}, [](const fs::path& root) {
      for (int i = 8; i < 50; ++i) draw_image(root / fmt::format("train/birch/{}.png", i), 4, i);
      for (int i = 2; i < 8; ++i) fs::remove(root / fmt::format("train/cedar/train-{}.png", i));
    });
    trap("BalancedClassesThatNothingShuffles", 0, {list, {"shuffle = \"every-epoch\"", "balance = true"}},
         [](const fs::path& root) {
           std::ofstream rows(root / "train.csv");  // with alternating classes
           rows << "file_name,label\n";
           for (int i = 0; i < 8; ++i) {
             for (const std::string name : {"ash", "birch", "cedar"})
               rows << fmt::format("train/{0}/train-{1}.png,{0}\n", name, i);
           }
         });
    trap("AFolderOfImagesAndMasks", 3, {{"classes = 3", "classes = 2"}}, [](const fs::path& root) {
      for (const std::string part : {"train", "val"}) {
        fs::rename(root / part / "ash", root / part / "images");
        fs::rename(root / part / "birch", root / part / "masks");
        fs::remove_all(root / part / "cedar");
      }
    });
    trap("AClassOfTheValidationWithoutAnOutput", 3, {}, [](const fs::path& root) { draw_image(root / "val/yew/1.png", 1, 99); });
    trap("ASmallMiddle", 0, {size_of_validation("size = [32, 32]\nshort_side = 320\ncrop = \"centre\"")});
    trap("AMiddleOfLargeImages", 0, {size_of_validation("size = [32, 32]\ncrop = \"centre\"")}, [](const fs::path& root) {
      for (int i = 0; i < 3; ++i) draw_large_image(root / fmt::format("val/ash/val-{}.png", i), 64);
      fs::remove_all(root / "val/birch");
      fs::remove_all(root / "val/cedar");
    });
    trap("ProbabilitiesBeforeALossThatMakesThem", 0, {{"\"quickstart\"", "\"ROOT/network.toml\""}},
         [](const fs::path& root) { write_network_that_ends_with("softmax", root / "network.toml"); });
    trap("OtherProbabilitiesBeforeALossThatMakesThem", 0, {{"\"quickstart\"", "\"ROOT/network.toml\""}},
         [](const fs::path& root) { write_network_that_ends_with("sigmoid", root / "network.toml"); });
    trap("OneImage", 0, {}, [](const fs::path& root) {
      const fs::path first = root / "train/ash/train-0.png";
      for (const auto& file : fs::recursive_directory_iterator(root / "train")) {
        if (file.is_regular_file() && file.path() != first) fs::copy(first, file, fs::copy_options::overwrite_existing);
      }
    });
    trap("SamplesClassByClass", 0, {{"shuffle = \"every-epoch\"\n", ""}});
    trap("ARateOfAnotherOptimizer", 0, {{"learning_rate = 0.05", "type = \"adam\"\nlearning_rate = 0.5"}});
    trap("ARateThatIsTooLarge", 0, {{"learning_rate = 0.05", "learning_rate = 50"}});
    trap("ARateThatMovesNothing", 0, {{"learning_rate = 0.05", "learning_rate = 1e-12"}});
    trap("ARateOfZero", 0, {{"learning_rate = 0.05", "learning_rate = 0"}});
    trap("ADecayOfAllWeights", 0, {{"learning_rate = 0.05", "learning_rate = 0.05\nweight_decay = 5"}});
    trap("NoStep", 0, {{"epochs  = 1", "epochs  = 0"}});
    trap("LabelsThatBeginWithOne", 0, {list, {"classes = 3", "classes = 4"}, untested},
         [](const fs::path& root) { list_images(root / "train.csv", 0, 7, 1); });
    trap("MoreMissingFilesOfAListThanAnEpochMayHave", 3, {list, untested},
         [](const fs::path& root) { list_images(root / "train.csv", 0, 11); });
    trap("AMissingFileWhereNoneMayBe", 3, {list, untested, {"size = 6", "size = 6\nbad_samples = \"fail\""}},
         [](const fs::path& root) { list_images(root / "train.csv", 0, 8); });
    trap("ImagesWithoutLabels", 0, {{"shuffle", "labels = \"none\"\nshuffle"}});
    trap("ImagesThatAreTooSmallForTheStridesOfANetwork", 0,
         {{"\"quickstart\"", "\"resnet18\"\nheight = 8\nwidth = 8"}, {"size = [32, 32]", "size = [8, 8]"}, untested});
    trap("AColourThatIsNone", 2, {{"{ name = \"object\" }", "{ name = \"object\", colour = \"red\" }"}}, {}, kSegment);
    trap(
        "MasksOfValuesThatNoClassHas", 3, {}, [](const fs::path& root) { draw_masks(root, 90, 255); }, kSegment);
    trap(
        "MasksThatAreIgnored", 3, {{"shuffle", "ignored = [254, 255]\nshuffle"}},
        [](const fs::path& root) { draw_masks(root, 254, 255); }, kSegment);
    trap(
        "MasksThatBeginWithOne", 0, {}, [](const fs::path& root) { draw_masks(root, 1, 2); }, kSegment);
    trap("MasksThatAreImages", 3, {{"ROOT/masks", "ROOT/images"}}, {}, kSegment);
    trap(
        "MasksOfOneClass", 0, {}, [](const fs::path& root) { draw_masks(root, 0, 0); }, kSegment);
    trap("OutputsThatNoClassOfPixelsHas", 0, {{"classes = 2", "classes = 21"}}, {}, kSegment);
    return made;
  }();
  return all;
}

void PrintTo(const Trap& trap, std::ostream* out) { *out << trap.name; }

std::string name_of(const ::testing::TestParamInfo<Trap>& trap) { return trap.param.name; }

class Traps : public ::testing::TestWithParam<Trap> {
 protected:
  // The file with its changes, next to its data.
  void write(const Trap& trap) {
    if (trap.file == kSegment) {
      draw_masks(folder_.path(), 0, 1);
    } else {
      draw_classes(folder_.path());
    }
    if (trap.data) trap.data(folder_.path());
    std::string text = trap.file;
    const auto replace = [&text](const std::string& what, const std::string& with) {
      const std::size_t at = text.find(what);
      ASSERT_NE(at, std::string::npos) << what;
      text.replace(at, what.size(), with);
    };
    for (const auto& [what, with] : trap.changes) replace(what, with);
    while (text.find("ROOT") != text.npos) replace("ROOT", folder_.path().string());
    std::ofstream(folder_ / "t.toml") << text;
  }

  Outcome run(std::vector<std::string> options) {
    options.insert(options.begin(), {tool("pipeline-run"), folder_ / "t.toml"});
    return run_command(options);
  }

  TemporaryFolder folder_;
};

std::size_t count_of(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != text.npos; at = text.find(part, at + 1)) ++count;
  return count;
}

TEST_P(Traps, AreSeenBeforeAnythingIsTrained) {
  const Trap& trap = GetParam();
  write(trap);
  const Outcome outcome = run({"--check"});
  EXPECT_EQ(outcome.code, trap.code) << outcome.err;
  EXPECT_MESSAGE(outcome.err);
}

INSTANTIATE_TEST_SUITE_P(FirstHour, Traps, ::testing::ValuesIn(traps()), name_of);

class RightFiles : public Traps {};

TEST_P(RightFiles, AreToldNothing) {
  write(GetParam());
  EXPECT_EQ(run({"--check"}).err, "");
}

// The last one leaves parts that share nothing, by one path.
INSTANTIATE_TEST_SUITE_P(FirstHour, RightFiles,
                         ::testing::Values(Trap{"Classes", 0}, Trap{"Masks", 0, {}, {}, kSegment},
                                           Trap{"Parts",
                                                0,
                                                {{"ROOT/val\"", "ROOT/train\"\npart = [0.5, 1]"},
                                                 {"shuffle", "part = [0, 0.5]\nshuffle"}}}),
                         name_of);

class UnusableValidation : public Traps {};

TEST_P(UnusableValidation, EndsTheRunBeforeItsFirstStep) {
  write(GetParam());
  const Outcome outcome = run({});
  EXPECT_EQ(outcome.code, 3) << outcome.err;
  EXPECT_NE(outcome.err.find("before the first step, [validate] was tried: none of its 9 samples can be used"), std::string::npos)
      << outcome.err;
}

INSTANTIATE_TEST_SUITE_P(FirstHour, UnusableValidation,
                         ::testing::Values(Trap{"CutFiles",
                                                3,
                                                {},
                                                [](const fs::path& root) {
                                                  for (const auto& file : fs::recursive_directory_iterator(root / "val")) {
                                                    if (file.is_regular_file()) fs::resize_file(file, 60);
                                                  }
                                                }}),
                         name_of);

class LossThatStays : public Traps {};

TEST_P(LossThatStays, IsToldOnceWithWhatToTry) {
  write(GetParam());
  const Outcome outcome = succeeded(run({"--set", "run.epochs=4"}));
  EXPECT_EQ(count_of(outcome.err, "warning: [train]: the loss has not fallen: it is "), 1U) << outcome.err;
  EXPECT_EQ(count_of(outcome.err, "--overfit 4 tests whether"), 1U) << outcome.err;
}

INSTANTIATE_TEST_SUITE_P(FirstHour, LossThatStays,
                         ::testing::Values(Trap{
                             "Rate", 0, {{"size = 6", "size = 24"}, {"learning_rate = 0.05", "learning_rate = 1e-7"}}}),
                         name_of);

}  // namespace
}  // namespace millrace::test

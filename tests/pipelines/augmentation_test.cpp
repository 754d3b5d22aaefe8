// Every kind of augmentation in whole runs, and its contact sheet.
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>

#include "command.h"
#include "testkit/messages.h"

namespace millrace::test {
namespace {

using Json = nlohmann::json;

constexpr const char* kEverything = R"(
[train.augment]
flip_x    = 0.5
flip_y    = 0.1
translate = { x = [-3, 3], y = [-3, 3], subpixel = true }
rotate    = [-20, 20]
scale     = [0.8, 1.2]
scale_x   = [0.9, 1.1]
scale_y   = [0.9, 1.1]
shear_x   = [-10, 10]
shear_y   = [-10, 10]
border    = "reflect"
interpolation = "bicubic"
random_resized_crop = { size = [32, 32], area = [0.5, 1] }
rand_augment    = { operations = 2, magnitude = 9 }
trivial_augment = true
brightness = [0.8, 1.2]
contrast   = [0.8, 1.2]
saturation = [0.8, 1.2]
hue        = [-0.1, 0.1]
greyscale  = 0.1
solarise   = { chance = 0.1 }
posterise  = { chance = 0.1 }
equalise   = 0.1
autocontrast = 0.1
invert     = 0.1
sharpness  = { chance = 0.3 }
blur       = { chance = 0.3 }
noise      = { chance = 0.3 }
erase      = { chance = 0.5, count = 2, value = "noise" }
[train.mix_images]
mixup  = { chance = 0.4, alpha = 0.4 }
cutmix = { chance = 0.4 }
)";

std::string everything(const TemporaryFolder& folder) {
  std::string path = folder / "everything.toml";
  std::ofstream(path) << "extends = \"" << pipeline("quickstart.toml") << "\"\n[run]\nepochs = 2\nfolder = \"\"\n[train]\n"
                      << "flow = [\"read\", \"decode_image\", \"augment\", \"batch\", \"mix_images\", \"forward_backward\", "
                         "\"allreduce\", \"optimizer\", \"metrics\"]\n"
                      << kEverything;
  return path;
}

// The stream hash and loss in each epoch's line.
std::vector<std::pair<std::string, double>> epochs(const std::string& file, int threads) {
  const Outcome outcome = succeeded(run_command({tool("pipeline-run"), file, "--json", "--devices", "cpu", "--set",
                                                 "data.path=" + shapes(), "--set", "run.threads=" + std::to_string(threads)}));
  std::vector<std::pair<std::string, double>> found;
  for (const Json& epoch : events(outcome, "epoch")) found.emplace_back(epoch.at("stream_hash"), epoch.at("loss"));
  return found;
}

TEST(Augmentation, IsTheSameForAnyNumberOfThreads) {
  const TemporaryFolder folder;
  const std::string file = everything(folder);
  const auto one = epochs(file, 1);
  ASSERT_EQ(one.size(), 2U);
  EXPECT_NE(one[0].first, one[1].first);
  EXPECT_EQ(epochs(file, 3), one);
}

TEST(ContactSheet, ShowsAnEpochAsItWillBe) {
  const TemporaryFolder folder;
  const std::string file = everything(folder);
  const auto show = [&](const std::string& name, std::vector<std::string> more) {
    const Outcome outcome = succeeded(run_command(
        with({tool("pipeline-data"), "show", file, "--set", "data.path=" + shapes(), "--out", folder / name}, {}, more)));
    EXPECT_NE(outcome.out.find(name), std::string::npos) << outcome.out;
    return read_file(folder / name);
  };
  const std::string first = show("first.png", {"--count", "9"});
  EXPECT_EQ(first.substr(1, 3), "PNG");
  EXPECT_EQ(show("again.png", {"--count", "9", "--threads", "1"}), first);
  EXPECT_NE(show("second.png", {"--count", "9", "--epoch", "2"}), first);
}

TEST(ContactSheet, WantsToKnowWhereTo) {
  const TemporaryFolder folder;
  EXPECT_MESSAGE(refused(run_command({tool("pipeline-data"), "show", everything(folder), "--set", "data.path=" + shapes()})));
}

}  // namespace
}  // namespace millrace::test

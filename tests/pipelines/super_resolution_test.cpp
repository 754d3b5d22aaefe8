// Pipelines whose targets have several times the size of their images.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <png_file.h>

#include <cmath>
#include <cstdlib>
#include <fstream>

#include "command.h"

namespace millrace::test::super_resolution_test {
namespace {

namespace fs = std::filesystem;

constexpr int kSide = 12, kCount = 16;

// Each image is a gradient of its own colour, and its target the same picture at twice the size.
void write_picture(const std::string& path, int number, int scale) {
  const int side = kSide * scale;
  std::vector<std::uint8_t> pixels;
  for (int i = 0; i < side * side; ++i) {
    const int down = 6 * (i / side) / scale, right = 4 * (i % side) / scale;
    for (const int level : {down + 8 * number, right + 6 * number, 200 - down - 5 * number}) {
      pixels.push_back(static_cast<std::uint8_t>(level));
    }
  }
  fs::create_directories(fs::path(path).parent_path());
  std::ofstream(path, std::ios::binary) << png_bytes({pixels.data(), {side, side, 3}});
}

// From 8 x 8 to 16 x 16: every output sees a part of the image.
constexpr const char* kNetwork = R"(
input  = { channels = 3, height = 8, width = 8 }
layers = [ { op = "conv", out = 3, kernel = 9, padding = 8 } ]
)";

class SuperResolution : public testing::Test {
 protected:
  SuperResolution() {
    for (int i = 0; i < kCount; ++i) {
      write_picture(folder_ / fmt::format("small/{:02}.png", i), i, 1);
      write_picture(folder_ / fmt::format("large/{:02}.png", i), i, 2);
    }
    std::ofstream(folder_ / "network.toml") << kNetwork;
  }

  // `read`: more of the source's table.
  std::string file(const std::string& read, const std::string& network = "[network]\nuse = \"network.toml\"\n\n") {
    const std::string steps = network.empty() ? "" : R"(, "forward_backward", "optimizer", "metrics")";
    std::ofstream(folder_ / "p.toml") << "[run]\nname = \"p\"\nfolder = \"\"\nepochs = 30\nprecision = \"fp32\"\n\n"
                                      << network << R"([train]
flow = ["read", "decode_image", "pad", "crop", "augment", "batch")"
                                      << steps << R"(]

[train.read]
stage  = "read_pairs"
images = ")" << folder_ / "small"
                                      << "\"\nlabels = \"" << folder_ / "large"
                                      << "\"\n"
                                      << read << R"(

[train.decode_image]
size = [12, 12]

[train.pad]
margin = 1
border = "reflect"

[train.augment]
flip_x    = 0.5
translate = { x = [-2, 2], y = [-2, 2] }
border    = "reflect"

[train.crop]
size     = [10, 10]
position = "random"

[train.batch]
size = 8
)" << (network.empty() ? "" : R"(
[train.forward_backward]
loss = "mean_squared_error"

[train.optimizer]
type          = "adam"
learning_rate = 0.003
)");
    return folder_ / "p.toml";
  }

  // Label images instead of pictures.
  void write_labels() {
    std::vector<std::uint8_t> labels(4 * kSide * kSide);
    for (std::size_t i = 0; i < labels.size(); ++i) labels[i] = static_cast<std::uint8_t>(i % 5);
    for (int i = 0; i < kCount; ++i) {
      std::ofstream(folder_ / fmt::format("large/{:02}.png", i), std::ios::binary)
          << png_bytes({labels.data(), {2 * kSide, 2 * kSide, 1}});
    }
  }

  static Outcome train(const std::string& file, const std::string& devices) {
    return run_command({tool("pipeline-run"), file, "--json", "--devices", devices, "--hash", "pixels"});
  }
  static double loss(const nlohmann::json& event) { return event.at("loss"); }

  TemporaryFolder folder_;
};

constexpr const char* kTwice = "target = \"image\"\ntarget_scale = 2\n";

TEST_F(SuperResolution, LearnsTheSameOnEveryBackend) {
  const fs::path simulated = fs::path(MILLRACE_BINARY_DIR) / "tests/simulated";
  const std::string pipeline = file(kTwice);
  const Outcome cpu = succeeded(train(pipeline, "cpu"));
  const auto steps = events(cpu, "step");
  ASSERT_EQ(steps.size(), 60U);
  EXPECT_LT(loss(steps.back()), 0.5 * loss(steps.front()));
  if (!fs::exists(simulated / "simulated.so")) GTEST_SKIP() << "the simulated device was not built";
  setenv("MILLRACE_PLUGIN_PATH", simulated.c_str(), 1);
  const Outcome gpu = train(pipeline, "simulated:0");
  unsetenv("MILLRACE_PLUGIN_PATH");
  ASSERT_EQ(gpu.code, 0) << gpu.err;
  EXPECT_EQ(events(gpu, "epoch").back().at("stream_hash"), events(cpu, "epoch").back().at("stream_hash"));
  EXPECT_NEAR(loss(events(gpu, "step").front()), loss(steps.front()), 1e-4 * loss(steps.front()));
  EXPECT_NEAR(loss(events(gpu, "step").back()), loss(steps.back()), 0.02 * loss(steps.back()));
}

std::string replaced(std::string text, const std::string& what, const std::string& with) {
  const std::size_t at = text.find(what);
  EXPECT_NE(at, std::string::npos) << what;
  return text.replace(at, what.size(), with);
}

// Each image is its own target.
class OwnTarget : public SuperResolution {
 protected:
  OwnTarget() {
    std::ifstream made(file("target_scale = 2\n"));
    std::string text(std::istreambuf_iterator<char>(made), {});
    text = replaced(text, fmt::format("images = \"{}\"\nlabels = \"{}\"", folder_ / "small", folder_ / "large"),
                    fmt::format("images = \"{}\"", folder_ / "large"));
    text = replaced(text, "size = [12, 12]", "size = [12, 12]\nshrink = \"bicubic\"");
    text = replaced(text, "folder = \"\"", fmt::format("folder = \"{}\"", folder_ / "runs"));
    std::ofstream(folder_ / "own.toml") << text;
  }
};

TEST_F(OwnTarget, MadeSmallerAnImageLearnsToBecomeItself) {
  const Outcome outcome = succeeded(train(folder_ / "own.toml", "cpu"));
  const auto steps = events(outcome, "step");
  ASSERT_EQ(steps.size(), 60U);
  EXPECT_LT(loss(steps.back()), 0.5 * loss(steps.front()));
  const auto epoch = events(outcome, "epoch").back();
  EXPECT_NEAR(epoch.at("psnr").get<double>(), -10 * std::log10(loss(epoch)), 1e-3);
}

TEST_F(SuperResolution, ItsTargetsAreShownAndPacked) {
  for (const char* read : {kTwice, "classes = [{ name = \"dark\", ids = [0, 1, 2, 3, 4, 5] }]\ntarget_scale = 2\n"}) {
    if (read != kTwice) write_labels();
    const std::string pipeline = file(read, "");
    const Outcome show = run_command({tool("pipeline-data"), "show", pipeline, "--out", folder_ / "sheet.png"});
    EXPECT_NE(show.out.find("16 samples of epoch 1"), std::string::npos) << show.out << show.err;
    const Outcome pack = run_command({tool("pipeline-data"), "pack", pipeline, "--out", folder_ / "shards", "--force"});
    EXPECT_EQ(pack.code, 0) << pack.out << pack.err;
    const Outcome shrunk =
        run_command({tool("pipeline-data"), "pack", pipeline, "--out", folder_ / "shrunk", "--short-side", "6", "--force"});
    EXPECT_EQ(shrunk.code, 0) << shrunk.out << shrunk.err;
  }
}

}  // namespace
}  // namespace millrace::test::super_resolution_test

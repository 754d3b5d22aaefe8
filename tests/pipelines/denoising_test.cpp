// Pipelines whose images have noise and whose targets do not.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <png_file.h>

#include <cstdlib>
#include <fstream>

#include "command.h"

namespace millrace::test {
namespace {

namespace fs = std::filesystem;

constexpr int kImageSide = 48, kCount = 12;

// A network that changes nothing: its error is the noise.
class Denoising : public testing::Test {
 protected:
  Denoising() {
    fs::create_directories(folder_ / "images");
    for (int number = 0; number < kCount; ++number) {  // half of each is black: noise is not clipped at the bounds
      std::vector<std::uint8_t> pixels(3 * kImageSide * kImageSide);
      for (std::size_t i = pixels.size() / 2; i < pixels.size(); ++i) pixels[i] = static_cast<std::uint8_t>(i % 251);
      std::ofstream(folder_ / fmt::format("images/{:02}.png", number), std::ios::binary)
          << png_bytes({pixels.data(), {kImageSide, kImageSide, 3}});
    }
    std::ofstream(folder_ / "network.toml")
        << "input  = { channels = 3, height = 48, width = 48, mean = [0.5, 0.4, 0.3], deviation = [0.25, 0.25, 0.25] }\n"
        << "layers = [ { op = \"scale\", factor = 1 } ]\n";
  }

  std::string file(const std::string& noise, const std::string& last, const std::string& more = "") const {
    std::ofstream(folder_ / "p.toml")
        << "[run]\nname = \"p\"\nfolder = \"\"\nprecision = \"fp32\"\n[network]\nuse = \"network.toml\"\n"
        << "[evaluate]\nflow = [\"read\", \"decode_image\", \"augment\", \"noise\", \"batch\", "
           "\"forward\", "
        << last << "]\n[evaluate.read]\nstage = \"read_pairs\"\nimages = \"" << folder_ / "images"
        << "\"\n[evaluate.decode_image]\nsize = [48, 48]\n[evaluate.augment]\nflip_x = 0.5\n"
        << "[evaluate.noise]\n"
        << noise << "[evaluate.batch]\nsize = 5\nlast = \"keep\"\n[evaluate.forward]\n"
        << "loss = \"mean_squared_error\"\n"
        << more;
    return folder_ / "p.toml";
  }
  static nlohmann::json pass(const std::string& file, const std::string& devices, const std::string& hash = "pixels") {
    const Outcome outcome = succeeded(run_command({tool("pipeline-run"), file, "--json", "--devices", devices, "--hash", hash}));
    const auto told = events(outcome, "validate");
    return told.empty() ? nlohmann::json::object() : told.front();
  }

  TemporaryFolder folder_;
};

constexpr const char* kMetrics = "\"metrics\"";

TEST_F(Denoising, AddsNoiseOfItsDeviationInFloat) {
  const double expected = 25 / 255.0 / 0.25, rmse = pass(file("deviation = 25\n", kMetrics), "cpu").at("rmse");
  EXPECT_NEAR(rmse, expected, 0.02 * expected);
}

TEST_F(Denoising, WithoutDeviationImagesAreTheirTargets) {
  EXPECT_EQ(pass(file("deviation = 0\n", kMetrics), "cpu").at("rmse"), 0.0);
}

TEST_F(Denoising, IsTheSameOnEveryBackend) {
  const fs::path simulated = fs::path(MILLRACE_BINARY_DIR) / "tests/simulated";
  if (!fs::exists(simulated / "simulated.so")) GTEST_SKIP() << "the simulated device was not built";
  const std::string pipeline = file("deviation = [5, 55]\n", kMetrics);
  const auto cpu = pass(pipeline, "cpu");
  setenv("MILLRACE_PLUGIN_PATH", simulated.c_str(), 1);
  const auto gpu = pass(pipeline, "simulated:0");
  unsetenv("MILLRACE_PLUGIN_PATH");
  EXPECT_EQ(gpu.at("stream_hash"), cpu.at("stream_hash"));
  const double expected = cpu.at("rmse");
  EXPECT_NEAR(gpu.at("rmse").get<double>(), expected, 1e-5 * expected);
}

}  // namespace
}  // namespace millrace::test

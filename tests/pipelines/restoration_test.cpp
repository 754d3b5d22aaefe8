// Photographs of a user, given to networks that were trained to restore or enlarge images.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <png.h>
#include <png_file.h>

#include <cmath>
#include <fstream>

#include "command.h"
#include "testkit/messages.h"

namespace millrace::test::restoration_test {
namespace {

namespace fs = std::filesystem;

void write_photograph(const std::string& path, int height, int width, int number) {
  std::vector<std::uint8_t> pixels;
  for (int i = 0; i < height * width; ++i) {
    for (const int level : {5 * (i / width), 4 * (i % width) + 9 * number, 200 - 3 * (i / width)}) {
      pixels.push_back(static_cast<std::uint8_t>(level % 256));
    }
  }
  fs::create_directories(fs::path(path).parent_path());
  std::ofstream(path, std::ios::binary) << png_bytes({pixels.data(), {height, width, 3}});
}

struct Pixels {
  int height = 0, width = 0;
  std::vector<std::uint8_t> rgb;
  bool operator==(const Pixels&) const = default;
};

Pixels read_png(const std::string& file) {
  Pixels pixels;
  png_image info{};
  info.version = PNG_IMAGE_VERSION;
  if (png_image_begin_read_from_file(&info, file.c_str()) == 0) return pixels;
  info.format = PNG_FORMAT_RGB;
  pixels.height = static_cast<int>(info.height);
  pixels.width = static_cast<int>(info.width);
  pixels.rgb.resize(PNG_IMAGE_SIZE(info));
  EXPECT_NE(png_image_finish_read(&info, nullptr, pixels.rgb.data(), 0, nullptr), 0) << info.message;
  return pixels;
}

// Sixteen images of 24 x 24; a network sees the centre of 16 x 16.
class Restoration : public testing::Test {
 protected:
  Restoration() {
    for (int i = 0; i < 16; ++i) write_photograph(folder_ / fmt::format("train/{:02}.png", i), 24, 24, i);
  }

  // Trains for two steps and returns the weights. `stages`: of the flow, between decode_image and batch; `tables`: theirs.
  std::string train(const std::string& layers, const std::string& decode, const std::string& stages, const std::string& tables,
                    int scale = 1, int side = 16) const {
    std::ofstream(folder_ / "network.toml")
        << fmt::format("defaults = {{ height = {0}, width = {0} }}\n", side)
        << "input = { channels = 3, height = \"${height}\", width = \"${width}\", mean = [0.5, 0.5, 0.5] }\nlayers = [\n"
        << layers << "]\n";
    const auto graph = [&](const char* name) {
      return fmt::format("[{0}.read]\nstage = \"read_pairs\"\nimages = \"{1}\"\ntarget_scale = {2}\n[{0}.decode_image]\n{3}",
                         name, folder_ / "train", scale, decode);
    };
    std::string here = tables, there = tables;
    for (std::size_t at = here.find('@'); at != std::string::npos; at = here.find('@')) here.replace(at, 1, "train");
    for (std::size_t at = there.find('@'); at != std::string::npos; at = there.find('@')) there.replace(at, 1, "validate");
    std::ofstream(folder_ / "p.toml")
        << "[run]\nname = \"p\"\nepochs = 1\nprecision = \"fp32\"\ndevices = \"cpu\"\nfolder = \"" << folder_ / "runs"
        << "\"\n[network]\nuse = \"network.toml\"\n"
        << "[train]\nflow = [\"read\", \"decode_image\", " << stages
        << "\"batch\", \"forward_backward\", \"optimizer\", \"metrics\"]\n"
        << graph("train") << here << "[train.batch]\nsize = 8\n[train.forward_backward]\n"
        << "loss = \"mean_squared_error\"\n[train.optimizer]\ntype = \"adam\"\n"
        << "learning_rate = 0.001\n[validate]\nevery = \"epoch\"\nflow = [\"read\", \"decode_image\", " << stages
        << "\"batch\", \"forward\", \"metrics\"]\n"
        << graph("validate") << there << "[validate.batch]\nsize = 8\nlast = \"keep\"\n"
        << "[validate.forward]\nloss = \"mean_squared_error\"\n";
    const Outcome outcome = succeeded(run_command({tool("pipeline-run"), folder_ / "p.toml", "--quiet"}));
    return find_file(folder_ / "runs", "weights.safetensors").string();
  }

  Outcome predict(const std::string& weights, const std::vector<std::string>& more = {}) const {
    return predict(folder_ / "photos", weights, more);
  }
  Outcome predict(const std::string& data, const std::string& weights, const std::vector<std::string>& more) const {
    return run_command(with(
        {tool("pipeline-run"), "--predict", data, "--weights", weights, "--out", folder_ / "out", "--devices", "cpu"}, {}, more));
  }

  // The network's output for an image at its own size, by a pipeline written for that.
  Pixels restored(const std::string& weights, const std::string& image, int height, int width) const {
    fs::remove_all(folder_ / "one");
    fs::create_directories(folder_ / "one");
    fs::copy(image, folder_ / "one");
    std::ofstream(folder_ / "one.toml")
        << "[run]\nname = \"one\"\nfolder = \"\"\nprecision = \"fp32\"\ndevices = \"cpu\"\n[network]\nuse = \"network.toml\"\n"
        << fmt::format("height = {}\nwidth = {}\n", height, width)
        << "[predict]\nflow = [\"read\", \"decode_image\", \"batch\", \"forward\", \"write_images\"]\n"
        << "[predict.read]\nstage = \"read_folder\"\nlabels = \"none\"\npath = \"" << folder_ / "one"
        << fmt::format("\"\n[predict.decode_image]\nsize = [{}, {}]\n", height, width)
        << "[predict.batch]\nsize = 1\n[predict.write_images]\nfolder = \"" << folder_ / "one"
        << "/made\"\n";
    const Outcome outcome = succeeded(run_command({tool("pipeline-run"), folder_ / "one.toml", "--weights", weights}));
    return read_png(folder_ / ("one/made/" + fs::path(image).filename().string()));
  }

  TemporaryFolder folder_;
};

constexpr const char* kDenoiser = "{ op = \"conv\", out = 3, kernel = 3, padding = 1 },\n";
constexpr const char* kCut = "size = [16, 16]\ncrop = \"centre\"\n";
constexpr const char* kNoise = "[@.noise]\ndeviation = 25\nevery_epoch = false\n";

TEST_F(Restoration, DenoisesPhotographsAtTheirOwnSizesAndAddsNoNoise) {
  const std::string weights = train(kDenoiser, kCut, "\"noise\", ", kNoise);
  write_photograph(folder_ / "photos/a/1.png", 20, 30, 1);
  write_photograph(folder_ / "photos/b/1.png", 20, 30, 2);
  write_photograph(folder_ / "photos/c/2.png", 17, 13, 3);
  const Outcome outcome = succeeded(predict(weights));
  EXPECT_EQ(read_png(folder_ / "out/images/a/1.png"), restored(weights, folder_ / "photos/a/1.png", 20, 30));
  EXPECT_EQ(read_png(folder_ / "out/images/b/1.png"), restored(weights, folder_ / "photos/b/1.png", 20, 30));
  EXPECT_EQ(read_png(folder_ / "out/images/c/2.png"), restored(weights, folder_ / "photos/c/2.png", 17, 13));
  const Outcome shown = run_command({tool("pipeline-inspect"), weights});
  for (const char* said : {"photographs keep their own size", "prepare = [\"decode_image\"]", "crop = \"none\""})
    EXPECT_NE(shown.out.find(said), std::string::npos) << shown.out;
  EXPECT_EQ(shown.out.find("noise"), std::string::npos) << "which --predict leaves out: " << shown.out;
  for (const char* file : {"out/pipeline-20x30.toml", "out/pipeline-17x13.toml"}) EXPECT_TRUE(fs::exists(folder_ / file));
  const Outcome again = run_command({tool("pipeline-run"), folder_ / "out/pipeline-20x30.toml", "--devices", "cpu"});
  EXPECT_EQ(again.code, 0) << "what was made is a pipeline like others: " << again.err;
}

TEST_F(Restoration, EnlargesPhotographsInsteadOfShrinkingThem) {
  const std::string weights =
      train("{ op = \"conv\", out = 12, kernel = 3, padding = 1 },\n{ op = \"pixel_shuffle\", factor = 2 },\n",
            "shrink = \"bicubic\"\nsize = [8, 8]\ncrop = \"centre\"\n", "", "", 2, 8);
  write_photograph(folder_ / "photos/1.png", 20, 30, 1);
  const Outcome outcome = succeeded(predict(weights));
  const Pixels made = read_png(folder_ / "out/images/1.png");
  EXPECT_EQ(made.height, 40);
  EXPECT_EQ(made.width, 60);
  EXPECT_EQ(made, restored(weights, folder_ / "photos/1.png", 20, 30));
}

TEST_F(Restoration, EverythingElseIsPreparedAsInValidation) {
  const std::string weights = train(kDenoiser, kCut, "\"noise\", ", kNoise);
  write_photograph(folder_ / "photos/1.png", 20, 30, 1);
  const std::pair<const char*, const char*> changes[] = {
      {"predict.decode_image.exif=false", "has exif = false, and photographs are given to these weights with exif = true"},
      {"predict.decode_image.allow_warnings=true", "has allow_warnings = true"},
      {"predict.forward.test_time=flip", "has test_time = \"flip\""}};
  for (const auto& [change, said] : changes) {
    const Outcome outcome = predict(weights, {"--check", "--set", change});
    EXPECT_EQ(outcome.code, 2) << change;
    EXPECT_NE(outcome.err.find(said), std::string::npos) << outcome.err;
  }
  EXPECT_FALSE(fs::exists(folder_ / "out"));
}

TEST_F(Restoration, SaysWhichSizeANetworkCannotTake) {
  const std::string weights = train(
      "{ op = \"conv\", out = 4, kernel = 3, padding = 1 },\n{ op = \"max_pool\", kernel = 4 },\n"
      "{ op = \"upsample\", factor = 4 },\n{ op = \"conv\", out = 3, kernel = 1 },\n",
      kCut, "\"noise\", ", kNoise);
  write_photograph(folder_ / "photos/1.png", 18, 24, 1);
  EXPECT_MESSAGE(refused(predict(weights)));
  EXPECT_FALSE(fs::exists(folder_ / "out"));
  fs::remove(folder_ / "photos/1.png");
  write_photograph(folder_ / "photos/1.png", 16, 24, 1);
  EXPECT_EQ(predict(weights).code, 0);
}

// 10 log10(255^2 / mean squared difference).
double peak_ratio(const Pixels& a, const Pixels& b) {
  EXPECT_EQ(a.rgb.size(), b.rgb.size());
  double squares = 0;
  for (std::size_t i = 0; i < std::min(a.rgb.size(), b.rgb.size()); ++i) squares += std::pow(a.rgb[i] - b.rgb[i], 2);
  return 10 * std::log10(255.0 * 255.0 * static_cast<double>(a.rgb.size()) / squares);
}

TEST_F(Restoration, ComparesPicturesWithTheirTargets) {
  const std::string weights = train(kDenoiser, kCut, "\"noise\", ", kNoise);
  double sum = 0;
  for (const int number : {1, 2}) {
    write_photograph(folder_ / fmt::format("photos/a/{}.png", number), 20, 30, number);
    write_photograph(folder_ / fmt::format("clean/a/{}.png", number), 20, 30, number + 1);
  }
  const Outcome outcome = succeeded(predict(weights, {"--labels", folder_ / "clean", "--json"}));
  for (const int number : {1, 2}) {
    const std::string name = fmt::format("a/{}.png", number);
    sum += peak_ratio(read_png(folder_ / ("out/images/" + name)), read_png(folder_ / ("clean/" + name)));
  }
  const std::string figures = read_file(folder_ / "out/evaluation/figures.csv");
  ASSERT_NE(figures.find("images,2\r\npsnr,"), std::string::npos) << figures;
  EXPECT_NEAR(std::stod(figures.substr(figures.find("psnr,") + 5)), sum / 2, 1e-4);
  EXPECT_NE(read_file(folder_ / "out/evaluation/images.csv").find("photos/a/2.png,"), std::string::npos);
  const auto pass = events(outcome, "validate");
  ASSERT_EQ(pass.size(), 1U);
  EXPECT_GT(pass[0].at("psnr").get<double>(), 0) << "with the loss of the validation";
}

TEST_F(Restoration, ComparesEnlargedPicturesWithTargetsOfTheirSize) {
  const std::string weights =
      train("{ op = \"conv\", out = 12, kernel = 3, padding = 1 },\n{ op = \"pixel_shuffle\", factor = 2 },\n",
            "shrink = \"bicubic\"\nsize = [8, 8]\ncrop = \"centre\"\n", "", "", 2, 8);
  write_photograph(folder_ / "photos/1.png", 20, 30, 1);
  write_photograph(folder_ / "large/1.png", 40, 60, 1);
  const Outcome outcome = succeeded(predict(weights, {"--labels", folder_ / "large"}));
  const std::string figures = read_file(folder_ / "out/evaluation/figures.csv");
  ASSERT_NE(figures.find("psnr,"), std::string::npos) << figures;
  EXPECT_NEAR(std::stod(figures.substr(figures.find("psnr,") + 5)),
              peak_ratio(read_png(folder_ / "out/images/1.png"), read_png(folder_ / "large/1.png")), 1e-4);
}

}  // namespace
}  // namespace millrace::test::restoration_test

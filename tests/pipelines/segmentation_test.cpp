// Pipelines that say which class each pixel has: weights of classes, figures by class, masks.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <png.h>
#include <png_file.h>

#include <cstdlib>
#include <fstream>

#include "command.h"
#include "millrace/detail/random.h"
#include "running_program.h"
#include "testkit/messages.h"

namespace millrace::test::segmentation_test {
namespace {

namespace fs = std::filesystem;

constexpr int kHeight = 20, kWidth = 24, kTraining = 24, kValidation = 6, kClasses = 3;

// The last class is rare, and only in every third image. Edges match those of images of half the size.
std::uint8_t class_at(int row, int column, int number) {
  if (number % 3 == 0 && row < 4 && column >= 20) return 2;
  return column < 8 + 2 * (number % 3) ? 0 : 1;
}

void write_png(const std::string& path, const std::vector<std::uint8_t>& pixels, int channels) {
  fs::create_directories(fs::path(path).parent_path());
  std::ofstream(path, std::ios::binary) << png_bytes({pixels.data(), {kHeight, kWidth, channels}});
}

// Each class has a colour, and every image its own brightness. The upper edge is ignored.
void write_pair(const std::string& folder, int number) {
  constexpr std::uint8_t kColours[kClasses][3] = {{200, 30, 40}, {20, 180, 60}, {50, 40, 210}};
  std::vector<std::uint8_t> pixels, labels;
  for (int i = 0; i < kHeight * kWidth; ++i) {
    const std::uint8_t of = class_at(i / kWidth, i % kWidth, number);
    for (const std::uint8_t level : kColours[of]) pixels.push_back(static_cast<std::uint8_t>(level + 3 * (number % 7)));
    labels.push_back(i < 2 * kWidth ? 9 : of);
  }
  write_png(fmt::format("{}/images/{:02}.png", folder, number), pixels, 3);
  write_png(fmt::format("{}/labels/{:02}.png", folder, number), labels, 1);
}

std::vector<std::uint8_t> read_grey(const std::string& file) {
  png_image info{};
  info.version = PNG_IMAGE_VERSION;
  EXPECT_NE(png_image_begin_read_from_file(&info, file.c_str()), 0) << file << ": " << info.message;
  EXPECT_EQ(info.format & PNG_FORMAT_FLAG_COLOR, 0U);
  info.format = PNG_FORMAT_GRAY;
  std::vector<std::uint8_t> pixels(PNG_IMAGE_SIZE(info));
  EXPECT_NE(png_image_finish_read(&info, nullptr, pixels.data(), 0, nullptr), 0) << info.message;
  return pixels;
}

// The colours of a palette image.
std::vector<std::uint8_t> read_rgb(const std::string& file) {
  png_image info{};
  info.version = PNG_IMAGE_VERSION;
  EXPECT_NE(png_image_begin_read_from_file(&info, file.c_str()), 0) << file << ": " << info.message;
  info.format = PNG_FORMAT_RGB;
  std::vector<std::uint8_t> pixels(PNG_IMAGE_SIZE(info));
  EXPECT_NE(png_image_finish_read(&info, nullptr, pixels.data(), 0, nullptr), 0) << info.message;
  return pixels;
}

class Segmentation : public testing::Test {
 protected:
  Segmentation() {
    for (int i = 0; i < kTraining; ++i) write_pair(folder_ / "train", i);
    for (int i = 0; i < kValidation; ++i) write_pair(folder_ / "val", i);
    std::ofstream(folder_ / "network.toml") << "input  = { channels = 3, height = 10, width = 12 }\n"
                                            << "layers = [ { op = \"conv\", out = 3, kernel = 1 } ]\n";
    setenv("MILLRACE_CACHE", (folder_ / "cache").c_str(), 1);
  }
  ~Segmentation() override { unsetenv("MILLRACE_CACHE"); }

  std::string file(const std::string& more = "") const {
    const auto read = [&](const char* graph, const char* part) {
      return fmt::format(
          "[{0}.read]\nstage = \"read_pairs\"\nimages = \"{1}/images\"\nlabels = \"{1}/labels\"\nclasses = [{{ name = \"a\" }}, "
          "{{ name = \"b\" }}, {{ name = \"c, rare\" }}]\nignored = [9]\n[{0}.decode_image]\nsize = [10, 12]\nfit = \"exact\"\n",
          graph, folder_ / part);
    };
    constexpr const char* kLoss = "loss = { type = \"pixel_cross_entropy\", class_weights = \"median-frequency\" }\n";
    std::ofstream(folder_ / "p.toml")
        << "[run]\nname = \"p\"\nfolder = \"" << folder_ / "runs"
        << "\"\nepochs = 12\nprecision = \"fp32\"\ndevices = \"cpu\"\n"
        << "[network]\nuse = \"network.toml\"\n[observe]\nresults = true\n"
        << "[train]\nflow = [\"read\", \"decode_image\", \"batch\", \"forward_backward\", \"optimizer\", \"metrics\"]\n"
        << read("train", "train") << "[train.batch]\nsize = 8\n[train.forward_backward]\n"
        << kLoss << "[train.optimizer]\ntype = \"adam\"\nlearning_rate = 0.1\n"
        << "[validate]\nevery = \"6 epochs\"\nflow = [\"read\", \"decode_image\", \"batch\", \"forward\", \"metrics\"]\n"
        << read("validate", "val") << "[validate.batch]\nsize = 4\nlast = \"keep\"\n[validate.forward]\n"
        << kLoss << "[predict]\nevery = \"never\"\n"
        << "flow = [\"read\", \"decode_image\", \"batch\", \"forward\", \"metrics\", \"write_masks\"]\n"
        << read("predict", "val") << "[predict.batch]\nsize = 4\n[predict.forward]\n"
        << kLoss << more;
    return folder_ / "p.toml";
  }

  struct Trained {
    Outcome outcome;
    fs::path folder;
    std::vector<double> weights;  // class weights, from the run's copy of the file
  };
  Trained train(const std::string& text = "", const std::vector<std::string>& more = {}) {
    fs::remove_all(folder_ / "runs");
    std::vector<std::string> arguments = {tool("pipeline-run"), file(text), "--json"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    Trained trained{run_command(arguments), {}, {}};
    EXPECT_EQ(trained.outcome.code, 0) << trained.outcome.err;
    trained.folder = newest_run(folder_ / "runs");
    const std::string copy = read_file(trained.folder / "pipeline.toml");
    EXPECT_EQ(copy.find("median-frequency"), std::string::npos) << copy;
    trained.weights = numbers_behind(copy, "class_weights");
    return trained;
  }
  std::vector<fs::path> kept() const {
    std::vector<fs::path> files;
    if (!fs::exists(folder_ / "cache/class_weights")) return files;
    for (const auto& entry : fs::directory_iterator(folder_ / "cache/class_weights")) files.push_back(entry.path());
    return files;
  }

  TemporaryFolder folder_;
};

TEST_F(Segmentation, WeighsClassesByTheirMedianFrequencyAsStatisticsPrintsIt) {
  const Trained trained = train();
  const Outcome statistics = succeeded(run_command({tool("pipeline-data"), "statistics", file()}));
  const std::vector<double> printed = numbers_behind(statistics.out, "weights = ");
  ASSERT_EQ(trained.weights.size(), 3U);
  ASSERT_EQ(printed.size(), 3U) << statistics.out;
  for (std::size_t c = 0; c < 3; ++c) EXPECT_NEAR(trained.weights[c], printed[c], 5e-5) << c;
  EXPECT_GT(trained.weights[2], 5) << "rare";
  EXPECT_GT(events(trained.outcome, "validate").back().at("mean_iou").get<double>(), 0.7);
}

TEST_F(Segmentation, CountsOnceUntilTheDataChanges) {
  const Trained first = train();
  ASSERT_EQ(kept().size(), 1U);
  const std::string text = "1\n2\n3\n", checksum = fmt::format("checksum {:016x}\n", hash_text(text));
  std::ofstream(kept().front()) << text << checksum;
  EXPECT_EQ(train().weights, (std::vector<double>{1, 2, 3})) << "what is kept is read";
  for (const std::string& broken : {"1\n2\n4\n" + checksum, text}) {
    std::ofstream(kept().front()) << broken;
    EXPECT_EQ(train().weights, first.weights) << "what is broken is counted again";
  }
  write_png(folder_ / "train/labels/00.png", std::vector<std::uint8_t>(kHeight * kWidth, 1), 1);
  EXPECT_NE(train().weights, first.weights);
  EXPECT_EQ(kept().size(), 2U);
}

TEST_F(Segmentation, CheckReadsNoSample) {
  const Outcome check = succeeded(run_command({tool("pipeline-run"), file(), "--check"}));
  EXPECT_TRUE(kept().empty());
}

TEST_F(Segmentation, AGraphAloneHasTheWeightsOfTheTrainingGraph) {
  const Trained trained = train();
  const Outcome alone = succeeded(run_command({tool("pipeline-run"), file(), "--json", "--graph", "validate", "--weights",
                                               (trained.folder / "weights.safetensors").string(), "--set", "run.folder="}));
  EXPECT_EQ(events(alone, "validate").at(0).at("loss"), events(trained.outcome, "validate").back().at("loss"));
}

TEST_F(Segmentation, MasksAreWhatTheFiguresWereMadeOf) {
  const Trained trained = train();
  const std::string toml = file("[predict.write_masks]\nfolder = \"" + (folder_ / "masks") + "\"\n");
  const Outcome predict = succeeded(run_command({tool("pipeline-run"), toml, "--json", "--graph", "predict", "--weights",
                                                 (trained.folder / "weights.safetensors").string(), "--set", "run.folder="}));
  EXPECT_EQ(events(predict, "validate").at(0).at("accuracy"), events(trained.outcome, "validate").back().at("accuracy"));
  for (int number = 0; number < kValidation; ++number) {
    EXPECT_EQ(read_grey(folder_ / fmt::format("masks/{:02}.png", number)).size(), 10U * 12U);
  }
}

TEST_F(Segmentation, WeightsHandOnTheColoursOfTheirClasses) {
  const std::vector<std::vector<std::uint8_t>> colours = {{0x10, 0x20, 0x30}, {0xc0, 0xff, 0xee}, {0, 0, 1}};
  const std::string named = R"(.read.classes=[{name="a", colour="#102030"}, {name="b", colour="#C0FFEE"}, )"
                            R"({name="c, rare", colour="#000001"}])";
  const Trained trained =
      train("[predict.write_masks]\npicture = \"colours\"\n", {"--set", "train" + named, "--set", "validate" + named});
  const std::string weights = (trained.folder / "weights.safetensors").string();
  const auto predict = [&](const std::string& out, const std::vector<std::string>& more = {}) {
    const Outcome outcome = succeeded(run_command(with({tool("pipeline-run"), "--predict", folder_ / "val/images", "--weights",
                                                        weights, "--out", folder_ / out, "--devices", "cpu"},
                                                       {}, more)));
    return folder_ / out + "/masks/01.png";
  };
  const std::vector<std::uint8_t> ids = read_grey(predict("ids", {"--set", "predict.write_masks.picture=ids"}));
  const std::vector<std::uint8_t> seen = read_rgb(predict("colours"));
  const std::vector<std::uint8_t> own =
      read_rgb(predict("own", {"--set", R"(predict.write_masks.colours=["#000002", "#000003", "#000004"])"}));
  ASSERT_EQ(ids.size(), 10U * 12U);
  ASSERT_EQ(seen.size(), 3 * ids.size());
  ASSERT_EQ(own.size(), 3 * ids.size());
  for (std::size_t place = 0; place < ids.size(); ++place) {
    ASSERT_LT(ids[place], colours.size());
    const auto* const pixel = seen.data() + 3 * place;
    EXPECT_EQ(std::vector<std::uint8_t>(pixel, pixel + 3), colours[ids[place]]) << place;
    EXPECT_EQ(own[3 * place + 2], ids[place] + 2) << place;
  }
  const Outcome other =
      run_command({tool("pipeline-run"), file(), "--graph", "validate", "--check", "--weights", weights, "--set",
                   "run.folder=", "--set", "validate" + std::string(named).replace(named.find("C0FFEE"), 6, "c0ffef")});
  EXPECT_EQ(other.code, 2);
  EXPECT_MESSAGE(other.err);
}

TEST_F(Segmentation, WeightsAloneGiveTheSameMasks) {
  const Trained trained = train();
  const std::string weights = (trained.folder / "weights.safetensors").string();
  const std::string toml = file("[predict.write_masks]\nfolder = \"" + (folder_ / "masks") + "\"\n");
  const auto alone = [&](const std::vector<std::string>& more) {
    return run_command(
        with({tool("pipeline-run"), toml, "--graph", "validate", "--check", "--weights", weights}, {"run.folder="}, more));
  };
  EXPECT_MESSAGE(refused(alone({"--set", R"(validate.read.classes=[{name="a"}, {name="b", ids=[1, 9]}, {name="c, rare"}])",
                                "--set", "validate.read.ignored=[]"})));
  const Outcome masks =
      run_command({tool("pipeline-run"), toml, "--graph", "predict", "--weights", weights, "--set", "run.folder="});
  ASSERT_EQ(masks.code, 0) << masks.err;
  fs::remove(folder_ / "network.toml");
  const Outcome outcome = succeeded(run_command({tool("pipeline-run"), "--predict", folder_ / "val/images", "--weights", weights,
                                                 "--out", folder_ / "o", "--devices", "cpu"}));
  for (int number = 0; number < kValidation; ++number) {
    const std::string name = fmt::format("masks/{:02}.png", number);
    EXPECT_EQ(read_grey((folder_ / "o") + "/" + name), read_grey(folder_ / name));
  }
}

TEST_F(Segmentation, PredictionsBesideLabelImagesHaveTheFiguresOfTheValidation) {
  const Trained trained = train();
  nlohmann::json there;
  for (const auto& event : events(trained.outcome, "validate")) there = event;
  const Outcome outcome =
      run_command({tool("pipeline-run"), "--predict", folder_ / "val/images", "--labels", folder_ / "val/labels", "--weights",
                   (trained.folder / "weights.safetensors").string(), "--out", folder_ / "o", "--devices", "cpu", "--json"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(outcome.err.find("are not counted"), std::string::npos) << "the file ignores 9: " << outcome.err;
  const auto here = events(outcome, "validate").at(0);
  for (const char* key : {"samples", "loss", "accuracy", "mean_accuracy", "mean_iou", "weighted_iou"}) {
    EXPECT_EQ(here.at(key), there.at(key)) << key;
  }
  const std::string figures = read_file(folder_ / "o/evaluation/figures.csv");
  const auto figure = [&](const std::string& name) {
    const std::size_t at = figures.find("\n" + name + ",");
    return at == std::string::npos ? -1 : std::stod(figures.substr(at + name.size() + 2));
  };
  for (const char* name : {"accuracy", "mean_accuracy", "mean_iou", "weighted_iou"}) {
    EXPECT_EQ(figure(name), here.at(name).get<double>()) << name << " in " << figures;
  }
  for (const char* file : {"confusion.png", "confusion.csv", "classes.csv", "calibration.csv", "worst.csv", "worst.png"}) {
    EXPECT_TRUE(fs::exists(fs::path(folder_ / "o/evaluation") / file)) << file;
  }
  EXPECT_TRUE(fs::exists(folder_ / "o/masks/00.png"));
}

}  // namespace
}  // namespace millrace::test::segmentation_test

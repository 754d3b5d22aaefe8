// pipeline-data show if stages after `batch` change the images.
#include <gtest/gtest.h>
#include <png.h>
#include <png_file.h>

#include <fstream>
#include <set>
#include <stdexcept>

#include "../../tools/pipeline-data/batch_line.h"
#include "command.h"
#include "millrace/detail/random.h"
#include "millrace/util/batch_input.h"
#include "testkit/messages.h"

namespace millrace::test {
namespace {

namespace fs = std::filesystem;

// Pixels of a sheet of 32 x 32 images, enlarged eight times: its margin, an image, and the distance between images.
constexpr int kMargin = 40, kSide = 256, kPitch = 288;
constexpr std::size_t kPixels = std::size_t{kSide} * kSide;

// One black and one white image, in a batch mixed by this rule.
std::string mixed_file(const TemporaryFolder& folder, const std::string& rule) {
  for (const auto& [name, level] : {std::pair{"black", 0}, std::pair{"white", 255}}) {
    std::vector<std::uint8_t> pixels(32 * 32 * 3, static_cast<std::uint8_t>(level));
    fs::create_directories(folder / ("set/" + std::string(name)));
    std::ofstream(folder / fmt::format("set/{}/1.png", name), std::ios::binary) << png_bytes({pixels.data(), {32, 32, 3}});
  }
  std::string path = folder / "mixed.toml";
  std::ofstream(path) << "[run]\nname = \"m\"\nfolder = \"\"\nseed = 5\n\n[network]\nuse = \""
                      << pipeline("networks/cifar10_conv.toml") << "\"\nclasses = 2\n\n"
                      << "[train]\nflow = [\"read\", \"decode_image\", \"batch\", \"mix_images\", \"forward_backward\", "
                      << "\"allreduce\", \"optimizer\", \"metrics\"]\n\n[train.read]\nstage = \"read_folder\"\npath = \""
                      << folder / "set"
                      << "\"\n\n[train.decode_image]\nsize = [32, 32]\n\n[train.batch]\nsize = 2\n\n[train.mix_images]\n"
                      << rule << "\n";
  return path;
}

struct Sheet {
  png_image info{};
  std::vector<std::uint8_t> pixels;  // (height, width, 3)

  explicit Sheet(const std::string& path) {
    info.version = PNG_IMAGE_VERSION;
    if (png_image_begin_read_from_file(&info, path.c_str()) == 0) throw std::runtime_error(path + ": " + info.message);
    info.format = PNG_FORMAT_RGB;
    pixels.resize(PNG_IMAGE_SIZE(info));
    png_image_finish_read(&info, nullptr, pixels.data(), 0, nullptr);
  }
  int at(int y, int x) const { return pixels[3 * (static_cast<std::size_t>(y) * info.width + static_cast<std::size_t>(x))]; }
  // The levels in the square of the first row's cell in this column.
  std::multiset<int> levels(int column) const {
    std::multiset<int> found;
    for (int y = 0; y < kSide; ++y) {
      for (int x = 0; x < kSide; ++x) found.insert(at(kMargin + y, kMargin + column * kPitch + x));
    }
    return found;
  }
};

Sheet show(const TemporaryFolder& folder, const std::string& file, const std::string& epoch = "1") {
  const Outcome outcome =
      succeeded(run_command({tool("pipeline-data"), "show", file, "--out", folder / "sheet.png", "--epoch", epoch}));
  EXPECT_NE(outcome.out.find("2 samples of epoch"), std::string::npos) << outcome.out;
  return Sheet(folder / "sheet.png");
}

TEST(ContactSheet, BlendsImagesByTheirShares) {
  const TemporaryFolder folder;
  const std::string file = mixed_file(folder, "mixup = { chance = 1, alpha = 8 }");
  std::set<int> shares;
  for (const char* epoch : {"1", "2", "3"}) {
    const Sheet sheet = show(folder, file, epoch);
    const int of_black = sheet.at(kMargin, kMargin), of_white = sheet.at(kMargin, kMargin + kPitch);
    EXPECT_EQ(sheet.levels(0).count(of_black), kPixels) << "one colour";
    EXPECT_GT(of_black, 0);
    EXPECT_NEAR(of_black + of_white, 255, 1) << "what one has of white, the other has of black";
    EXPECT_EQ(sheet.info.height, 402U) << "two labels below each image";
    shares.insert(of_black);
  }
  EXPECT_GE(shares.size(), 2U) << "every batch has a share of its own";
}

TEST(ContactSheet, PastesARectangleOfTheOtherImage) {
  const TemporaryFolder folder;
  const std::string file = mixed_file(folder, "cutmix = { chance = 1, alpha = 8 }");
  const Sheet sheet = show(folder, file);
  const std::multiset<int> black = sheet.levels(0), white = sheet.levels(1);
  EXPECT_GT(black.count(255), 0U);
  EXPECT_LT(black.count(255), kPixels);
  EXPECT_EQ(black.count(0) + black.count(255), kPixels);
  EXPECT_EQ(white.count(0), black.count(255)) << "the same rectangle";
}

// The stream hash of each of two epochs of one batch.
std::vector<std::uint64_t> run_hashes(const std::string& file, std::vector<std::string> more) {
  more.insert(more.begin(), {tool("pipeline-run"), file, "--json", "--devices", "cpu", "--set", "run.epochs=2"});
  const Outcome outcome = succeeded(run_command(more));
  std::vector<std::uint64_t> hashes;
  for (const auto& epoch : events(outcome, "epoch")) {
    hashes.push_back(std::stoull(epoch.at("stream_hash").get<std::string>(), nullptr, 16));
  }
  return hashes;
}

TEST(ContactSheet, MixesBatchesAsARunDoes) {
  const TemporaryFolder folder;
  DataSetOptions options;
  options.file = mixed_file(folder, "mixup = { chance = 0.5 }\ncutmix = { chance = 0.5 }");
  const std::vector<std::uint64_t> drawn = run_hashes(options.file, {}), seen = run_hashes(options.file, {"--hash", "pixels"});
  ASSERT_EQ(drawn.size(), 2U);
  ASSERT_EQ(seen.size(), 2U);
  const DataSet data(options, DataSet::Stages::images);
  const BatchLine batches(data);
  for (std::uint64_t epoch = 0; epoch < 2; ++epoch) {
    EXPECT_EQ(combine(drawn[epoch], hash_of_input(*batches.load(epoch, 0, 2))), seen[epoch]);
  }
}

TEST(ContactSheet, LeavesUnmixedBatchesAlone) {
  const TemporaryFolder folder;
  const Sheet sheet = show(folder, mixed_file(folder, "mixup = { chance = 0 }"));
  EXPECT_EQ(sheet.levels(0).count(0), kPixels);
  EXPECT_EQ(sheet.levels(1).count(255), kPixels);
  EXPECT_EQ(sheet.info.height, 374U) << "one label";
}

TEST(ContactSheet, IsAPngFile) {
  const TemporaryFolder folder;
  const Outcome outcome =
      run_command({tool("pipeline-data"), "show", mixed_file(folder, "mixup = { chance = 1 }"), "--out", folder / "sheet.jpg"});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_MESSAGE(outcome.err);
  EXPECT_FALSE(fs::exists(folder / "sheet.jpg"));
}

}  // namespace
}  // namespace millrace::test

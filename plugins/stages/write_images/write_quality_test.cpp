#include "write_quality.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <sstream>

#include "millrace/kernels/noise.h"
#include "pictures_fixture.h"
#include "testkit/reference_value.h"

#include "testkit/messages.h"

namespace millrace {
namespace {

// tests/reference/README.md
std::vector<std::uint8_t> reference_image(const ImageShape& shape, std::uint32_t phase) {
  std::vector<std::uint8_t> pixels;
  for (int i = 0; i < shape.height * shape.width * shape.channels; ++i) {
    const int c = i % shape.channels, x = i / shape.channels % shape.width, y = i / shape.channels / shape.width;
    const double grain = static_cast<double>(testkit::reference_value(static_cast<std::uint32_t>(i), phase, 40));
    pixels.push_back(static_cast<std::uint8_t>(std::clamp(std::floor(60 + 4 * y + 3 * x + 20 * c + grain), 0.0, 255.0)));
  }
  return pixels;
}

TEST(ImageQuality, IsThatOfNumPy) {
  const auto file = nlohmann::json::parse(std::ifstream(MILLRACE_SOURCE_DIR "/tests/reference/figures.json"));
  ASSERT_FALSE(file["pictures"].empty());
  for (const auto& tested : file["pictures"]) {
    SCOPED_TRACE(tested.dump());
    const ImageShape shape{tested["shape"][0].get<int>(), tested["shape"][1].get<int>(), tested["shape"][2].get<int>()};
    std::vector<Planes> planes;
    for (const std::uint32_t i : {0U, 1U}) {
      const std::vector<std::uint8_t> pixels = reference_image(shape, tested["phase"].get<std::uint32_t>() + i);
      planes.push_back(planes_of({pixels.data(), shape}, tested["luminance"].get<bool>(), tested["border"].get<int>()));
    }
    EXPECT_NEAR(peak_signal_to_noise_ratio(planes[0], planes[1]), tested["psnr"].get<double>(), 1e-6);
    EXPECT_NEAR(structural_similarity(planes[0], planes[1]), tested["ssim"].get<double>(), 1e-6);
  }
}

TEST(ImageQuality, EqualImagesAreAsAlikeAsCanBe) {
  const ImageShape shape{12, 13, 3};
  const std::vector<std::uint8_t> pixels = reference_image(shape, 3);
  const Planes planes = planes_of({pixels.data(), shape}, false, 0);
  EXPECT_EQ(peak_signal_to_noise_ratio(planes, planes), std::numeric_limits<double>::infinity());
  EXPECT_NEAR(structural_similarity(planes, planes), 1, 1e-12);
}

constexpr int kSide = 12;

class WriteQualityTest : public testkit::PredictionsTest {
 protected:
  WriteQualityTest() : PredictionsTest({kSide, kSide, 1}, {1, kSide, kSide}) { context_.target.kind = TargetSpec::Kind::image; }

  // Targets of one grey level each; outputs are in 0 ... 1.
  Ref<Predictions> compared(const std::vector<float>& outputs, const std::vector<std::uint8_t>& targets) {
    std::vector<std::vector<float>> maps;
    for (const float output : outputs) maps.emplace_back(kSide * kSide, output);
    Ref<Predictions> made = share(maps);
    made->batch = testkit::make_batch(static_cast<std::uint32_t>(targets.size()), {kSide, kSide, 1});
    made->batch->target.kind = TargetSpec::Kind::image;
    auto& bytes = targets_.emplace_back();
    for (const std::uint8_t level : targets) bytes.insert(bytes.end(), kSide * kSide, level);
    made->batch->targets = bytes.data();
    return made;
  }

  std::deque<std::vector<std::uint8_t>> targets_;
};

TEST_F(WriteQualityTest, ComparesWithTargetsOfAPass) {
  CompileRequest request;
  StageTypeAccess::make<WriteQuality>().request(testkit::table({}), context_, request);
  EXPECT_TRUE(request.needs_image);
  const auto harness = made<WriteQuality>({{"normalised", Value(false)}});
  const Ref<Predictions> first = compared({0.2F, 0.4F}, {61, 102}), second = compared({0.4F, 0.2F}, {92, 51});
  first->last = false;
  first->samples[1].counts = false;
  second->turn = 1;
  second->samples[1].counts = false;
  EXPECT_TRUE(write(*harness, first).empty());
  EXPECT_EQ(text_of("quality/images.csv"), "") << "the pass is not whole";
  EXPECT_TRUE(write(*harness, second).empty());
  // Ten grey levels of difference: 20 log10(255 / 10).
  std::istringstream rows(text_of("quality/images.csv"));
  std::string row;
  std::getline(rows, row);
  EXPECT_EQ(row, "path,psnr,ssim\r");
  for (int i = 0; i < 2; ++i) {
    std::getline(rows, row);
    EXPECT_TRUE(row.starts_with("photos/0.jpg,28.130804,0.9")) << row;
  }
  EXPECT_FALSE(std::getline(rows, row)) << row;
  std::vector<std::string> names;
  for (const Figure& figure : run_.figures()) names.push_back(figure.name);
  EXPECT_EQ(names, harness->stage().reported_figures());
  EXPECT_NEAR(run_.figures().at(0).value, 28.130804, 1e-6) << names[0];
  EXPECT_TRUE(text_of("quality/figures.csv").starts_with("figure,value\r\nimages,2\r\npsnr,28.1308"))
      << text_of("quality/figures.csv");
}

// Constant images are restored exactly, and an infinite mean would hide the others.
TEST_F(WriteQualityTest, LeavesInfiniteRatiosOutOfTheMeanAndSaysSo) {
  const auto harness = made<WriteQuality>({{"normalised", Value(false)}});
  EXPECT_TRUE(write(*harness, compared({0.2F, 0.4F, NAN}, {61, 102, 10})).empty());
  const std::string rows = text_of("quality/images.csv"), figures = text_of("quality/figures.csv");
  EXPECT_NE(rows.find("photos/1.jpg,inf,1.00000000\r\n"), std::string::npos) << rows;
  EXPECT_TRUE(figures.starts_with("figure,value\r\nimages,3\r\npsnr,28.13080360867")) << figures;
  EXPECT_NE(figures.find("\r\nequal,1\r\nnot_finite,1\r\n"), std::string::npos) << figures;
  ASSERT_EQ(run_.warnings().size(), 1U);
  EXPECT_MESSAGE(run_.warnings()[0]);
  const Ref<Predictions> second = compared({0.4F}, {102}), none = compared({0.4F}, {9});
  second->turn = 1;
  none->turn = 2;
  none->samples[0].counts = false;
  EXPECT_TRUE(write(*harness, second).empty());
  EXPECT_EQ(text_of("quality/figures.csv"), "figure,value\r\nimages,1\r\npsnr,inf\r\nssim,1\r\nequal,1\r\n");
  EXPECT_TRUE(write(*harness, none).empty());
  EXPECT_EQ(text_of("quality/figures.csv"), "figure,value\r\nimages,0\r\npsnr,\r\nssim,\r\n");
  EXPECT_EQ(run_.warnings().size(), 1U);
}

TEST_F(WriteQualityTest, ComparesTheEnlargedInputBesideIt) {
  const ImageShape window{kSide, kSide, 1}, large{2 * kSide, 2 * kSide, 1};
  network_.layers.back().output = {1, large.height, large.width};
  context_.target.scale = 2;
  const auto harness = made<WriteQuality>({{"normalised", Value(false)}, {"baseline", Value(std::string("bicubic"))}});
  const Ref<Predictions> one = share({std::vector<float>(large.bytes(), 0.4F)});
  one->batch = testkit::make_batch(1, window);
  one->batch->target.kind = TargetSpec::Kind::image;
  one->batch->target.scale = 2;
  std::vector<std::uint8_t> target(large.bytes(), 122);
  one->batch->targets = target.data();
  std::fill_n(one->batch->change_pixels(), window.bytes(), std::uint8_t{120});
  EXPECT_TRUE(write(*harness, one).empty());
  // 20 and 2 grey levels of difference: 20 log10(255 / 20), 20 log10(255 / 2).
  const std::string rows = text_of("quality/images.csv"), figures = text_of("quality/figures.csv");
  EXPECT_TRUE(rows.starts_with("path,psnr,ssim,bicubic_psnr,bicubic_ssim\r\nphotos/0.jpg,22.110204,0.9")) << rows;
  EXPECT_NE(rows.find(",42.110204,0.99"), std::string::npos) << rows;
  EXPECT_NE(figures.find("bicubic_psnr,42.1102"), std::string::npos) << figures;
  context_.target.scale = 1;
  network_.layers.back().output = {1, kSide, kSide};
  EXPECT_MESSAGE(testkit::error_of([&] { made<WriteQuality>({{"baseline", Value(std::string("bicubic"))}}); }).message());
}

TEST_F(WriteQualityTest, ComparesTheNoisyInputAsTheBaselineOfDenoising) {
  const ImageShape window{kSide, kSide, 1};
  network_.layers.back().output = {1, kSide, kSide};
  const auto harness = made<WriteQuality>({{"normalised", Value(false)}, {"baseline", Value(std::string("input"))}});
  const Ref<Predictions> one = share({std::vector<float>(window.bytes(), 0.5F)});
  one->batch = testkit::make_batch(1, window);
  one->batch->target.kind = TargetSpec::Kind::image;
  std::vector<std::uint8_t> target(window.bytes(), 120);
  one->batch->targets = target.data();
  std::fill_n(one->batch->change_pixels(), window.bytes(), std::uint8_t{120});
  one->batch->records[0].noise = 20;
  one->batch->records[0].noise_seed = 7;
  EXPECT_TRUE(write(*harness, one).empty());
  double squares = 0;
  for (std::uint32_t place = 0; place < window.bytes(); ++place) {
    squares += std::pow(std::lround(20 * normal_deviate(7, place)), 2);  // 120 is far from both bounds
  }
  const std::string rows = text_of("quality/images.csv");
  const std::string expected =
      fmt::format(",{:.6f},", 10 * std::log10(255.0 * 255.0 * static_cast<double>(window.bytes()) / squares));
  EXPECT_TRUE(rows.starts_with("path,psnr,ssim,input_psnr,input_ssim\r\n")) << rows;
  EXPECT_NE(rows.find(expected), std::string::npos) << expected << " in " << rows;
  EXPECT_NE(text_of("quality/figures.csv").find("input_psnr,"), std::string::npos);
  context_.target.scale = 2;
  network_.layers.back().output = {1, 2 * kSide, 2 * kSide};
  EXPECT_MESSAGE(testkit::error_of([&] { made<WriteQuality>({{"baseline", Value(std::string("input"))}}); }).message());
}

TEST_F(WriteQualityTest, RefusesWhatCannotBeCompared) {
  const auto mistake = [&](std::int64_t border) {
    return testkit::error_of([&] { made<WriteQuality>({{"border", Value(border)}}); }).message();
  };
  EXPECT_NE(mistake(1).find("less than 11 x 11 pixels"), std::string::npos) << mistake(1);
  context_.target.scale = 2;
  EXPECT_NE(mistake(0).find("they must match"), std::string::npos) << mistake(0);
  context_.target = {};
  EXPECT_MESSAGE(mistake(0));
}

}  // namespace
}  // namespace millrace

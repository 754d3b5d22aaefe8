#include "write_grad_cam.h"

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "millrace/backend/backend.h"
#include "pictures_fixture.h"
#include "testkit/reference_value.h"

#include "testkit/messages.h"

namespace millrace {
namespace {

std::vector<float> reference_values(const nlohmann::json& recipe) {
  std::size_t size = 1;
  for (const auto& extent : recipe["shape"]) size *= extent.get<std::size_t>();
  std::vector<float> values;
  for (std::uint32_t i = 0; i < size; ++i) {
    values.push_back(testkit::reference_value(i, recipe["phase"].get<std::uint32_t>(), recipe["scale"].get<double>(),
                                              recipe["offset"].get<double>()));
  }
  return values;
}

TEST(GradCam, IsThatOfPyTorchAtTheSizeOfThePicture) {
  const auto file = nlohmann::json::parse(std::ifstream(MILLRACE_SOURCE_DIR "/tests/reference/grad_cam.json"));
  ASSERT_FALSE(file["maps"].empty());
  for (const auto& tested : file["maps"]) {
    const auto shape = tested["features"]["shape"].get<std::vector<int>>(), size = tested["size"].get<std::vector<int>>();
    HeatMap map{shape[1], shape[2], {}};
    grad_cam(reference_values(tested["features"]), reference_values(tested["gradients"]), map);
    const auto expected = tested["map"].get<std::vector<double>>(), resized = tested["resized"].get<std::vector<double>>();
    ASSERT_EQ(map.values.size(), expected.size());
    for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(static_cast<double>(map.values[i]), expected[i], 1e-6);

    const PictureFrame frame{{}, size[0], size[1]};
    const AffineMap to_map = frame.from_map(map.height, map.width, {size[0], size[1], 3}).inverse();
    ASSERT_EQ(frame.places(), resized.size());
    std::size_t next = 0;
    for (int y = 0; y < size[0]; ++y) {
      for (int x = 0; x < size[1]; ++x, ++next) {
        const float found = value_at(map, to_map.xx * x + to_map.x0, to_map.yy * y + to_map.y0);
        EXPECT_NEAR(static_cast<double>(found), resized[next], 1e-6) << x << ", " << y;
      }
    }
  }
}

// Features of two channels of 2 x 2 places, an image of 4 x 4 pixels, three classes.
class WriteGradCamTest : public testkit::PredictionsTest {
 protected:
  WriteGradCamTest() : PredictionsTest({4, 4, 3}, {3}) {
    context_.classes = {"cat", "dog", "owl"};
    network_.layers[0].op = "conv";
    for (const std::size_t layer : {0U, 1U}) network_.layers[layer].output = {2, 2, 2};
  }

  // The second channel of the features has negative gradients.
  Ref<Predictions> grey_images(std::size_t count, int of = ScoreGradient::kPredicted) {
    Ref<Predictions> made = share(std::vector<std::vector<float>>(count, std::vector<float>(3)));
    auto &features = values_.emplace_back(), &gradients = values_.emplace_back();
    for (std::size_t n = 0; n < count; ++n) {
      features.insert(features.end(), {2, 0, 0, 0, 0, 0, 0, 9});
      gradients.insert(gradients.end(), {1, 2, 0, 1, -1, -1, -1, -1});
    }
    made->outputs.push_back({1, {2, 2, 2}, features.data()});
    made->outputs.push_back({1, {2, 2, 2}, gradients.data(), of});
    made->batch = testkit::make_batch(static_cast<std::uint32_t>(count), {4, 4, 3});
    std::fill_n(made->batch->change_pixels(), count * 48, std::uint8_t{100});
    return made;
  }

  std::string mistake(const char* key, const char* value) {
    return testkit::error_of([&] { made<WriteGradCam>({{key, Value(std::string(value))}}); }).message();
  }
};

TEST_F(WriteGradCamTest, ReddensWhatSpeaksForTheClass) {
  const auto harness = made<WriteGradCam>({{"opacity", Value(1.0)}});
  EXPECT_TRUE(write(*harness, grey_images(2)).empty());
  EXPECT_TRUE(std::filesystem::exists(folder_ / "grad_cam/1.png"));
  const testkit::Picture picture = testkit::read_png(folder_ / "grad_cam/0.png");
  ASSERT_EQ(picture.height, 4);
  ASSERT_EQ(picture.width, 4);
  const auto pixel = [&](std::size_t at) {
    return std::vector<int>(picture.pixels.begin() + static_cast<std::ptrdiff_t>(3 * at),
                            picture.pixels.begin() + static_cast<std::ptrdiff_t>(3 * at + 3));
  };
  EXPECT_EQ(pixel(0), (std::vector<int>{128, 0, 0})) << "heat 1";
  EXPECT_EQ(pixel(1), (std::vector<int>{216, 121, 25})) << "heat 0.75";
  EXPECT_EQ(pixel(4), pixel(1)) << "the map is symmetric";
  EXPECT_EQ(pixel(15), (std::vector<int>{100, 100, 100})) << "what speaks against it stays as it is";
}

TEST_F(WriteGradCamTest, AsksForFeaturesTheirGradientAndImages) {
  const StageType type = StageTypeAccess::make<WriteGradCam>();
  CompileRequest request;
  type.request(testkit::table({}), context_, request);
  type.request(testkit::table({{"classes", Value(std::string("dog"))}}), context_, request);
  type.request(testkit::table({{"classes", Value(std::string("label"))}, {"features", Value(std::string("fc1"))}}), context_,
               request);
  EXPECT_TRUE(request.needs_image);
  EXPECT_EQ(request.outputs, (std::vector<LayerPort>{1, 0})) << "by default the map after the last convolution";
  ASSERT_EQ(request.gradients.size(), 3U);
  EXPECT_EQ(request.gradients[0], (ScoreGradient{1, ScoreGradient::kPredicted}));
  EXPECT_EQ(request.gradients[1], (ScoreGradient{1, 1}));
  EXPECT_EQ(request.gradients[2], (ScoreGradient{0, ScoreGradient::kLabel}));
}

TEST_F(WriteGradCamTest, ImagesWithoutALabelAreCounted) {
  const auto harness = made<WriteGradCam>({{"classes", Value(std::string("label"))}});
  const Ref<Predictions> three = grey_images(3, ScoreGradient::kLabel);
  three->samples[0].label = -1;
  three->samples[1].label = 2;
  three->samples[2].label = 3;
  EXPECT_TRUE(write(*harness, three).empty());
  EXPECT_FALSE(std::filesystem::exists(folder_ / "grad_cam/0.png"));
  EXPECT_TRUE(std::filesystem::exists(folder_ / "grad_cam/1.png"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "grad_cam/2.png"));
  ASSERT_EQ(run_.warnings().size(), 1U);
  EXPECT_MESSAGE(run_.warnings()[0]);
}

TEST_F(WriteGradCamTest, DrawsInTheFrameOfTheSource) {
  const auto harness = made<WriteGradCam>({{"opacity", Value(1.0)}, {"size", Value(std::string("source"))}});
  const Ref<Predictions> one = grey_images(1);
  one->samples[0].source = {4, 8, {1, 0, 4, 0, 1, 0}};  // the network saw the right half
  EXPECT_TRUE(write(*harness, one).empty());
  const testkit::Picture picture = testkit::read_png(folder_ / "grad_cam/0.png");
  ASSERT_EQ(picture.width, 8);
  EXPECT_EQ(picture.pixels[0], 0) << "nothing was seen there";
  EXPECT_EQ(picture.pixels[3 * 4], 128);
  EXPECT_EQ(picture.pixels[3 * 4 + 1], 0);
}

TEST_F(WriteGradCamTest, RefusesWhatItCannotDraw) {
  EXPECT_MESSAGE(mistake("classes", "dogs"));
  EXPECT_MESSAGE(mistake("features", "fc2"));
  EXPECT_MESSAGE(mistake("features", "rela"));
  network_.layers[0].name = "block1.relu2";
  network_.layers[1].name = "block2.relu2";
  EXPECT_MESSAGE(mistake("features", "relu2"));
  EXPECT_MESSAGE(mistake("features", "block1"));
  network_.layers[0].op = "linear";
  EXPECT_MESSAGE(mistake("classes", "predicted"));
  network_.layers.back().output = {3, 2, 2};
  EXPECT_MESSAGE(mistake("features", "relu"));
}

}  // namespace
}  // namespace millrace

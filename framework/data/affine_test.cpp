#include "millrace/util/affine.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <vector>

namespace millrace {
namespace {

using Json = nlohmann::json;
constexpr std::uint8_t kNoFill[4] = {};

std::vector<std::uint8_t> pattern(ImageShape shape) {
  std::vector<std::uint8_t> pixels(shape.bytes());
  for (std::size_t i = 0; i < pixels.size(); ++i)
    pixels[i] = static_cast<std::uint8_t>((i * i * 7 + i * 13 + (i >> 3) * 5) % 251);
  return pixels;
}

std::vector<std::uint8_t> warped(std::vector<std::uint8_t> pixels, ImageShape shape, const AffineMap& to_source,
                                 Interpolation interpolation, Border border = Border::constant,
                                 const std::uint8_t* fill = kNoFill) {
  std::vector<std::uint8_t> out(pixels.size());
  warp_affine(to_source, {pixels.data(), shape}, interpolation, border, fill, {out.data(), shape});
  return out;
}

Interpolation interpolation_of(const std::string& name) {
  return name == "nearest" ? Interpolation::nearest : name == "bilinear" ? Interpolation::bilinear : Interpolation::bicubic;
}

Border border_of(const std::string& name) {
  return name == "reflect" ? Border::reflect : name == "edge" ? Border::edge : Border::constant;
}

TEST(WarpAffine, IsWithinOneGreyLevelOfPillow) {
  std::ifstream file(std::string(MILLRACE_SOURCE_DIR) + "/tests/reference/augment.json");
  const Json reference = Json::parse(file);
  const ImageShape shape{reference["height"], reference["width"], 3};
  ASSERT_EQ(reference["affine"].size(), 18U);
  for (const Json& entry : reference["affine"]) {
    const std::array<double, 6> m = entry["map"];
    const std::array<std::uint8_t, 3> colour = entry["fill"];
    const std::uint8_t fill[4] = {colour[0], colour[1], colour[2], 0};
    const std::vector<std::uint8_t> expected = entry["pixels"];
    const std::string name = entry["interpolation"], border = entry["border"];
    const auto out =
        warped(pattern(shape), shape, {m[0], m[1], m[2], m[3], m[4], m[5]}, interpolation_of(name), border_of(border), fill);
    int most = 0;
    for (std::size_t i = 0; i < out.size(); ++i) most = std::max(most, std::abs(out[i] - expected[i]));
    EXPECT_LE(most, name == "nearest" ? 0 : 1) << entry["name"] << " " << name << " " << border;
  }
}

TEST(WarpAffine, TheIdentityChangesNothing) {
  for (const std::int32_t channels : {1, 2, 3, 4}) {
    const ImageShape shape{5, 9, channels};
    for (const Interpolation interpolation : {Interpolation::nearest, Interpolation::bilinear, Interpolation::bicubic}) {
      for (const Border border : {Border::constant, Border::reflect, Border::edge}) {
        EXPECT_EQ(warped(pattern(shape), shape, {}, interpolation, border), pattern(shape));
      }
    }
  }
}

TEST(WarpAffine, WholePixelsAreMovedAsARecordMovesThem) {
  const ImageShape shape{6, 7, 3};
  const std::uint8_t fill[4] = {1, 2, 3, 4};
  for (const Border border : {Border::constant, Border::reflect, Border::edge}) {
    AugmentationRecord record;
    record.flip_x(shape.width);
    record.translate(3, -2);
    record.border = border;
    std::copy_n(fill, 4, record.fill);
    auto pixels = pattern(shape);
    std::vector<std::uint8_t> expected(pixels.size());
    apply_record(record, {pixels.data(), shape}, shape, expected.data());
    const AffineMap map = AffineMap::scale(-1, 1).about(3, 2.5).then(AffineMap::translation(3, -2)).inverse();
    for (const Interpolation interpolation : {Interpolation::nearest, Interpolation::bilinear, Interpolation::bicubic}) {
      EXPECT_EQ(warped(pixels, shape, map, interpolation, border, fill), expected);
    }
  }
}

TEST(WarpAffine, KeepsAFlatImageFlat) {
  const ImageShape shape{16, 11, 3};
  const std::vector<std::uint8_t> flat(shape.bytes(), 255);
  const AffineMap map = AffineMap::rotation(31).then(AffineMap::scale(0.7, 1.3)).about(5, 7.5);
  for (const Interpolation interpolation : {Interpolation::nearest, Interpolation::bilinear, Interpolation::bicubic}) {
    EXPECT_EQ(warped(flat, shape, map, interpolation, Border::reflect), flat);
    EXPECT_EQ(warped(flat, shape, map, interpolation, Border::edge), flat);
  }
}

TEST(WarpAffine, StaysInMemoryHoweverFarItLooks) {
  const std::uint8_t fill[4] = {9, 9, 9, 9};
  for (const ImageShape shape : {ImageShape{1, 1, 3}, ImageShape{2, 3, 1}, ImageShape{7, 1, 4}}) {
    for (const double scale : {1e-9, 1e3, 1e12}) {
      for (const Interpolation interpolation : {Interpolation::nearest, Interpolation::bilinear, Interpolation::bicubic}) {
        for (const Border border : {Border::constant, Border::reflect, Border::edge}) {
          const AffineMap map{scale, -scale, 1e15, 3 * scale, scale, -1e15};
          warped(pattern(shape), shape, map, interpolation, border, fill);
        }
      }
    }
  }
  const ImageShape shape{2, 2, 1};
  EXPECT_EQ(warped(pattern(shape), shape, AffineMap::translation(1e15, 0), Interpolation::bilinear, Border::constant, fill),
            std::vector<std::uint8_t>(4, 9));
}

TEST(AffineMap, TurnsCounterClockwise) {
  const AffineMap quarter = AffineMap::rotation(90);  // the right side moves to the top, where y is negative
  EXPECT_NEAR(quarter.xx * 1 + quarter.xy * 0, 0, 1e-12);
  EXPECT_NEAR(quarter.yx * 1 + quarter.yy * 0, -1, 1e-12);
}

TEST(AffineMap, ItsInverseLeadsBack) {
  const AffineMap map = AffineMap::shear(20, 0)
                            .then(AffineMap::rotation(70))
                            .then(AffineMap::scale(0.3, 2))
                            .about(4, 5)
                            .then(AffineMap::translation(7, -1));
  const AffineMap same = map.then(map.inverse());
  EXPECT_NEAR(same.xx, 1, 1e-12);
  EXPECT_NEAR(same.xy, 0, 1e-12);
  EXPECT_NEAR(same.x0, 0, 1e-12);
  EXPECT_NEAR(same.yx, 0, 1e-12);
  EXPECT_NEAR(same.yy, 1, 1e-12);
  EXPECT_NEAR(same.y0, 0, 1e-12);
}

}  // namespace
}  // namespace millrace

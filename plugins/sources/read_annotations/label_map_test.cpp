#include "label_map.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include "millrace/sample.h"

namespace millrace {
namespace {

using Pixels = std::vector<std::uint8_t>;
using Points = std::vector<double>;

struct Map {
  int width, height;
  Pixels pixels;

  Map(int width_, int height_)
      : width(width_), height(height_), pixels(static_cast<std::size_t>(width_) * static_cast<std::size_t>(height_)) {}
  LabelMap drawing() { return {pixels.data(), width, height}; }
  std::uint8_t at(int x, int y) const {
    return pixels[static_cast<std::size_t>(y) * static_cast<std::size_t>(width) + static_cast<std::size_t>(x)];
  }
};

std::vector<std::int32_t> grid(const Points& points) {
  std::vector<std::int32_t> values;
  for (const double value : points) values.push_back(grid_value(value));
  return values;
}

Map filled(const Points& points, int width, int height) {
  Map map(width, height);
  map.drawing().polygon(grid(points), 1);
  return map;
}

// The rule point by point: every line on the grid, and the sides of each column of pixels.
Map by_points(const Points& points, int width, int height) {
  const std::vector<std::int32_t> corners = grid(points);
  std::vector<std::pair<int, int>> path;
  for (std::size_t i = 0; i < corners.size(); i += 2) {
    const std::size_t next = (i + 2) % corners.size();
    int x0 = corners[i], y0 = corners[i + 1], x1 = corners[next], y1 = corners[next + 1];
    const int wide = std::abs(x1 - x0), high = std::abs(y1 - y0), steps = std::max(wide, high);
    const bool turned = wide >= high ? x0 > x1 : y0 > y1;
    if (turned) {
      std::swap(x0, x1);
      std::swap(y0, y1);
    }
    for (int step = 0; step <= steps && steps > 0; ++step) {
      const int along = turned ? steps - step : step;
      const double slope = wide >= high ? static_cast<double>(y1 - y0) / wide : static_cast<double>(x1 - x0) / high;
      if (wide >= high)
        path.emplace_back(x0 + along, static_cast<int>(y0 + slope * along + .5));
      else
        path.emplace_back(static_cast<int>(x0 + slope * along + .5), y0 + along);
    }
  }
  Map map(width, height);
  for (std::size_t i = 1; i < path.size(); ++i) {
    const int left = std::min(path[i].first, path[i - 1].first), upper = std::min(path[i].second, path[i - 1].second);
    if (path[i].first == path[i - 1].first || left < 0 || left % 5 != 2 || left / 5 >= width) continue;
    const double row = std::ceil(std::clamp((upper + .5) / 5 - .5, 0., static_cast<double>(height)));
    for (int y = static_cast<int>(row); y < height; ++y) map.pixels[static_cast<std::size_t>(y * width + left / 5)] ^= 1U;
  }
  return map;
}

Points random_polygon(std::mt19937_64& random, int corners, double low, double high, bool tenths) {
  Points points;
  for (int i = 0; i < 2 * corners; ++i) {
    double value = low + (high - low) * static_cast<double>(random() >> 11U) / 9007199254740992.0;
    if (tenths) value = std::round(value * 10) / 10;
    points.push_back(value);
  }
  return points;
}

TEST(LabelMap, AColumnChangesSidesWhereALinePassesItsCentre) {
  const Map map = filled({1, 1, 4, 1, 4, 3, 1, 3}, 6, 5);
  for (int y = 0; y < 5; ++y) {
    for (int x = 0; x < 6; ++x) EXPECT_EQ(map.at(x, y), x >= 1 && x < 4 && y >= 1 && y < 3 ? 1 : 0) << x << ", " << y;
  }
}

TEST(LabelMap, FollowsTheRulePointByPoint) {
  std::mt19937_64 random(1);
  for (int round = 0; round < 2000; ++round) {
    const int width = 1 + static_cast<int>(random() % 40), height = 1 + static_cast<int>(random() % 40);
    const Points points = random_polygon(random, 3 + static_cast<int>(random() % 9), -12, 52, round % 2 == 0);
    ASSERT_EQ(filled(points, width, height).pixels, by_points(points, width, height).pixels) << round;
  }
}

// Hashes of masks that pycocotools 2.0.11 made of the same polygons: frPyObjects(), merge(), decode().
TEST(LabelMap, EqualsPycocotools) {
  std::mt19937_64 random(2);
  std::uint64_t hash = 0;
  for (int round = 0; round < 500; ++round) {
    const Points points = random_polygon(random, 3 + round % 20, -10, 110, round % 2 == 0);
    const Map map = filled(points, 100, 80);
    hash = hash_bytes(map.pixels.data(), map.pixels.size(), hash);
  }
  EXPECT_EQ(hash, 11397661080193210432U);
}

TEST(LabelMap, PaintsRunsColumnByColumn) {
  Map map(3, 2);
  const std::vector<std::int32_t> runs = {1, 2, 2, 1};  // pixels 1, 2 and 5 of (0,0) (0,1) (1,0) ...
  map.drawing().runs(runs, 7);
  EXPECT_EQ(map.pixels, (Pixels{0, 7, 0, 7, 0, 7}));
}

TEST(LabelMap, APolygonOfManyLongLinesNeedsNoMoreMemoryThanItsImage) {
  Points zigzag;
  for (int i = 0; i < 20'000; ++i) {
    zigzag.push_back(i % 2 == 0 ? -5 : 205);
    zigzag.push_back(i % 7);
  }
  EXPECT_EQ(filled(zigzag, 200, 10).pixels.size(), 2000U);
}

}  // namespace
}  // namespace millrace

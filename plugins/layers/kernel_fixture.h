// For tests of single gather kernels: small maps of one channel with given values.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

namespace millrace::layers {

struct TestMap {
  std::int32_t height, width;
  std::vector<float> values;

  TestMap(std::int32_t rows, std::int32_t columns)
      : height(rows), width(columns), values(static_cast<std::size_t>(rows * columns)) {}
  float& at(std::int32_t y, std::int32_t x) { return values[static_cast<std::size_t>(y * width + x)]; }
  float at(std::int32_t y, std::int32_t x) const { return values[static_cast<std::size_t>(y * width + x)]; }
};

// The maps read by a kernel.
class TestFrom {
 public:
  explicit TestFrom(std::vector<TestMap> maps) : maps_(std::move(maps)) {}
  std::int32_t height(int map) const { return maps_[static_cast<std::size_t>(map)].height; }
  std::int32_t width(int map) const { return maps_[static_cast<std::size_t>(map)].width; }
  auto operator()(int map, std::int32_t y, std::int32_t x) const {
    return [value = maps_[static_cast<std::size_t>(map)].at(y, x)](std::int32_t /*c*/) { return value; };
  }

 private:
  std::vector<TestMap> maps_;
};

template <class Kernel>
TestMap gathered(const Kernel& kernel, std::vector<TestMap> maps, std::int32_t height, std::int32_t width) {
  const TestFrom from(std::move(maps));
  TestMap result(height, width);
  for (std::int32_t y = 0; y < height; ++y) {
    for (std::int32_t x = 0; x < width; ++x) result.at(y, x) = kernel(from, y, x)(std::int32_t{0});
  }
  return result;
}

}  // namespace millrace::layers

// Label maps drawn from shapes, by the rule of pycocotools.
//
// Coordinates are rounded to fifths of a pixel. A polygon's edges become lines on that grid; where a line passes the centre of a
// column of pixels, the pixels below it change sides. A pixel is inside if an odd number of lines lies above its centre. Boxes
// are polygons with four corners.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace millrace {

class ByteBuffer;

// A coordinate in fifths of a pixel. REQUIRES: |pixels| <= kMaxCoordinate.
std::int32_t grid_value(double pixels);
inline constexpr double kMaxCoordinate = 1 << 20;

class LabelMap {
 public:
  // Draws into `pixels`: (H, W), contiguous.
  LabelMap(std::uint8_t* pixels, int width, int height) : pixels_(pixels), width_(width), height_(height) {}

  void fill(std::uint8_t value);
  void polygon(std::span<const std::int32_t> grid_points, std::uint8_t value);  // x, y, x, y, ... from grid_value()
  // Lengths of runs outside and inside in turn, column by column. REQUIRES: their sum is width * height.
  void runs(std::span<const std::int32_t> lengths, std::uint8_t value);

 private:
  void line(std::int32_t x0, std::int32_t y0, std::int32_t x1, std::int32_t y1);
  void cross(std::int64_t column, std::int64_t grid_y);
  void cancel_pairs();
  void paint(std::uint64_t begin, std::uint64_t end, std::uint8_t value);  // positions in column order

  std::uint8_t* pixels_;
  int width_, height_;
  std::vector<std::uint64_t> crossings_;  // positions in column order
};

// A grey PNG of the pixels, (H, W) and contiguous, which decoders of label images read. They are stored uncompressed: that is
// fastest.
std::size_t png_bytes(int width, int height);  // at most
void write_png(const std::uint8_t* pixels, int width, int height, ByteBuffer& out);

}  // namespace millrace

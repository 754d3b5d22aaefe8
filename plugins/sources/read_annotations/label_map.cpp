#include "label_map.h"

#include <zlib.h>

#include <algorithm>
#include <cstring>

#include "millrace/error.h"
#include "millrace/sample.h"

namespace millrace {

namespace {

constexpr std::int64_t kGrid = 5;    // points of the grid in a pixel
constexpr std::int64_t kCentre = 2;  // the last of them at or before the pixel's centre

// A value of the line through `from`, `along` steps on.
std::int64_t on_line(std::int64_t from, double slope, std::int64_t along) {
  return static_cast<std::int64_t>(static_cast<double>(from) + slope * static_cast<double>(along) + .5);
}

std::size_t row_bytes(int width, int height) {  // each row begins with its filter
  return (static_cast<std::size_t>(width) + 1) * static_cast<std::size_t>(height);
}

void put(std::uint8_t* at, std::uint32_t number) {  // the highest byte first
  for (const unsigned shift : {24U, 16U, 8U, 0U}) *at++ = static_cast<std::uint8_t>(number >> shift);
}

// Completes a chunk of a PNG around its content, which begins eight bytes behind `at`. Returns its end.
std::uint8_t* chunk(std::uint8_t* at, const char* type, std::size_t size) {
  put(at, static_cast<std::uint32_t>(size));
  std::memcpy(at + 4, type, 4);
  put(at + 8 + size, static_cast<std::uint32_t>(crc32(0, at + 4, static_cast<uInt>(size + 4))));
  return at + 12 + size;
}

constexpr std::size_t kHead = 13, kFrames = 8 + 3 * 12;  // bytes of IHDR's content, and of the signature and three chunks' frames

}  // namespace

std::int32_t grid_value(double pixels) { return static_cast<std::int32_t>(static_cast<double>(kGrid) * pixels + .5); }

void LabelMap::fill(std::uint8_t value) {
  std::memset(pixels_, value, static_cast<std::size_t>(width_) * static_cast<std::size_t>(height_));
}

void LabelMap::paint(std::uint64_t begin, std::uint64_t end, std::uint8_t value) {
  const auto height = static_cast<std::uint64_t>(height_), width = static_cast<std::uint64_t>(width_);
  for (std::uint64_t column = begin / height; begin < end; ++column) {
    const std::uint64_t last = std::min(end, (column + 1) * height);
    for (; begin < last; ++begin) pixels_[(begin - column * height) * width + column] = value;
  }
}

// A line passes between the two points of the grid next to the centre of a column.
void LabelMap::cross(std::int64_t column, std::int64_t grid_y) {
  const std::int64_t row = grid_y <= kCentre ? 0 : std::min<std::int64_t>((grid_y - kCentre + kGrid - 1) / kGrid, height_);
  crossings_.push_back(static_cast<std::uint64_t>(column * height_ + row));
  const std::uint64_t all = static_cast<std::uint64_t>(width_) * (static_cast<std::uint64_t>(height_) + 1);
  if (crossings_.size() > 2 * all) cancel_pairs();
}

// Two lines at one place have no effect. So no polygon needs more memory than its image.
void LabelMap::cancel_pairs() {
  std::ranges::sort(crossings_);
  std::size_t kept = 0;
  for (const std::uint64_t position : crossings_) {
    if (kept > 0 && crossings_[kept - 1] == position)
      --kept;
    else
      crossings_[kept++] = position;
  }
  crossings_.resize(kept);
}

void LabelMap::line(std::int32_t x0, std::int32_t y0, std::int32_t x1, std::int32_t y1) {
  const std::int64_t width = std::int64_t{x1} - x0, height = std::int64_t{y1} - y0;
  const bool is_flat = std::abs(width) >= std::abs(height);
  if (width == 0) return;  // it passes no centre of a column
  if (is_flat ? x0 > x1 : y0 > y1) {
    std::swap(x0, x1);
    std::swap(y0, y1);
  }
  const std::int64_t left = std::min(x0, x1), right = std::max(x0, x1);
  const std::int64_t first = left <= kCentre ? 0 : (left - kCentre + kGrid - 1) / kGrid;
  const std::int64_t last = std::min<std::int64_t>((right - kCentre - 1 + kGrid) / kGrid - 1, width_ - 1);
  if (is_flat) {
    const double slope = static_cast<double>(y1 - y0) / static_cast<double>(right - left);
    for (std::int64_t column = first; column <= last; ++column) {
      const std::int64_t along = column * kGrid + kCentre - left;
      cross(column, std::min(on_line(y0, slope, along), on_line(y0, slope, along + 1)));
    }
    return;
  }
  const std::int64_t steps = std::int64_t{y1} - y0;
  const double slope = static_cast<double>(x1 - x0) / static_cast<double>(steps);
  for (std::int64_t column = first; column <= last; ++column) {
    // The first step on the other side of the centre; x changes by at most one a step, always in the same direction.
    const std::int64_t before = column * kGrid + kCentre;
    std::int64_t low = 0, high = steps;  // `high` is on the other side
    while (low < high) {
      const std::int64_t middle = (low + high) / 2, x = on_line(x0, slope, middle);
      (slope > 0 ? x > before : x <= before) ? high = middle : low = middle + 1;
    }
    cross(column, y0 + high - 1);
  }
}

void LabelMap::polygon(std::span<const std::int32_t> points, std::uint8_t value) {
  crossings_.clear();
  for (std::size_t i = 0; i + 1 < points.size(); i += 2) {
    const std::size_t next = i + 3 < points.size() ? i + 2 : 0;
    line(points[i], points[i + 1], points[next], points[next + 1]);
  }
  cancel_pairs();
  for (std::size_t i = 0; i + 1 < crossings_.size(); i += 2) paint(crossings_[i], crossings_[i + 1], value);
}

void LabelMap::runs(std::span<const std::int32_t> lengths, std::uint8_t value) {
  std::uint64_t at = 0;
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    const auto length = static_cast<std::uint64_t>(lengths[i]);
    if (i % 2 == 1) paint(at, at + length, value);
    at += length;
  }
}

std::size_t png_bytes(int width, int height) { return kFrames + kHead + compressBound(row_bytes(width, height)); }

void write_png(const std::uint8_t* pixels, int width, int height, ByteBuffer& out) {
  thread_local ByteBuffer rows;
  const auto columns = static_cast<std::size_t>(width);
  std::uint8_t* row = rows.resize(row_bytes(width, height));
  for (int y = 0; y < height; ++y, row += columns + 1, pixels += columns) {
    *row = 0;  // no filter
    std::memcpy(row + 1, pixels, columns);
  }
  std::uint8_t* at = out.resize(png_bytes(width, height));
  std::memcpy(at, "\x89PNG\r\n\x1a\n", 8);
  at += 8;
  put(at + 8, static_cast<std::uint32_t>(width));
  put(at + 12, static_cast<std::uint32_t>(height));
  std::memcpy(at + 16, "\x08\0\0\0\0", 5);  // 8 bits, grey, zlib, filters by row, not interlaced
  at = chunk(at, "IHDR", kHead);
  uLongf size = compressBound(rows.size());
  if (compress2(at + 8, &size, rows.data(), rows.size(), Z_NO_COMPRESSION) != Z_OK)
    fail(ErrorKind::run, "zlib cannot store a label map of {} x {} pixels", width, height);
  at = chunk(at, "IDAT", size);
  at = chunk(at, "IEND", 0);
  out.resize(static_cast<std::size_t>(at - out.data()));
}

}  // namespace millrace

#include "label_map.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "millrace/detail/byte_buffer.h"

namespace millrace {

namespace {

constexpr std::int64_t kGrid = 5;    // points of the grid in a pixel
constexpr std::int64_t kCentre = 2;  // the last of them at or before the pixel's centre

// A value of the line through `from`, `along` steps on.
std::int64_t on_line(std::int64_t from, double slope, std::int64_t along) {
  return static_cast<std::int64_t>(static_cast<double>(from) + slope * static_cast<double>(along) + .5);
}

// ---- PNG (RFC 2083), zlib (RFC 1950) and deflate (RFC 1951) ----

constexpr std::size_t kBlock = 65'535, kBlockHead = 5, kZlibHead = 2, kZlibEnd = 4, kChunk = 12;
constexpr std::size_t kHead = 8 + kChunk + 13;

std::size_t raw_bytes(int width, int height) {
  return (static_cast<std::size_t>(width) + 1) * static_cast<std::size_t>(height);
}
std::size_t stream_bytes(int width, int height) {
  const std::size_t raw = raw_bytes(width, height);
  return kZlibHead + raw + (raw + kBlock - 1) / kBlock * kBlockHead + kZlibEnd;
}

// Eight tables, so that the checksum takes eight bytes a step.
struct CrcTables {
  std::array<std::array<std::uint32_t, 256>, 8> tables{};

  constexpr CrcTables() {
    for (std::uint32_t value = 0; value < 256; ++value) {
      std::uint32_t crc = value;
      for (int bit = 0; bit < 8; ++bit) crc = (crc & 1U) != 0 ? 0xedb88320U ^ (crc >> 1U) : crc >> 1U;
      tables[0][value] = crc;
    }
    for (std::size_t t = 1; t < 8; ++t) {
      for (std::size_t value = 0; value < 256; ++value) {
        const std::uint32_t before = tables[t - 1][value];
        tables[t][value] = tables[0][before & 0xffU] ^ (before >> 8U);
      }
    }
  }
};
constexpr CrcTables kCrc;

std::uint32_t crc32(const std::uint8_t* bytes, std::size_t size) {
  std::uint32_t crc = 0xffffffffU;
  for (; size >= 8; size -= 8, bytes += 8) {
    const auto at = [bytes](int i) { return static_cast<std::uint32_t>(bytes[i]); };
    const std::uint32_t first = crc ^ (at(0) | at(1) << 8U | at(2) << 16U | at(3) << 24U);
    crc = kCrc.tables[7][first & 0xffU] ^ kCrc.tables[6][first >> 8U & 0xffU] ^ kCrc.tables[5][first >> 16U & 0xffU] ^
          kCrc.tables[4][first >> 24U] ^ kCrc.tables[3][at(4)] ^ kCrc.tables[2][at(5)] ^ kCrc.tables[1][at(6)] ^
          kCrc.tables[0][at(7)];
  }
  for (; size > 0; --size, ++bytes) crc = kCrc.tables[0][(crc ^ *bytes) & 0xffU] ^ (crc >> 8U);
  return ~crc;
}

class Adler {
 public:
  void add(const std::uint8_t* bytes, std::size_t size) {
    while (size > 0) {
      const std::size_t some = std::min<std::size_t>(size, 5552);  // as many as cannot overflow
      for (std::size_t i = 0; i < some; ++i) {
        low_ += bytes[i];
        high_ += low_;
      }
      low_ %= 65'521U;
      high_ %= 65'521U;
      bytes += some;
      size -= some;
    }
  }
  std::uint32_t value() const { return high_ << 16U | low_; }

 private:
  std::uint32_t low_ = 1, high_ = 0;
};

std::uint8_t* put(std::uint8_t* at, std::uint32_t number) {  // the highest byte first
  for (const unsigned shift : {24U, 16U, 8U, 0U}) *at++ = static_cast<std::uint8_t>(number >> shift);
  return at;
}
// A chunk around its content: returns where the content is to be written.
std::uint8_t* begin_chunk(std::uint8_t* at, std::size_t size, const char* type) {
  at = put(at, static_cast<std::uint32_t>(size));
  std::memcpy(at, type, 4);
  return at + 4;
}
std::uint8_t* end_chunk(const std::uint8_t* content, std::size_t size) {
  std::uint8_t* const end = const_cast<std::uint8_t*>(content) + size;
  return put(end, crc32(content - 4, size + 4));
}

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

std::size_t png_bytes(int width, int height) { return kHead + kChunk + stream_bytes(width, height) + kChunk; }

void write_png(const std::uint8_t* pixels, int width, int height, ByteBuffer& out) {
  std::uint8_t* at = out.resize(png_bytes(width, height));
  std::memcpy(at, "\x89PNG\r\n\x1a\n", 8);
  std::uint8_t* head = begin_chunk(at + 8, 13, "IHDR");
  std::uint8_t* const after_sides = put(put(head, static_cast<std::uint32_t>(width)), static_cast<std::uint32_t>(height));
  constexpr std::array<std::uint8_t, 5> kGrey = {8, 0, 0, 0, 0};  // 8 bits, grey, deflate, filters by row, not interlaced
  std::copy(kGrey.begin(), kGrey.end(), after_sides);
  const std::size_t size = stream_bytes(width, height);
  std::uint8_t* const content = begin_chunk(end_chunk(head, 13), size, "IDAT");
  at = content;
  *at++ = 0x78;
  *at++ = 0x01;
  // Rows, each after its filter (0: none), in blocks.
  Adler adler;
  std::size_t left = raw_bytes(width, height), in_block = 0;
  const auto append = [&](const std::uint8_t* bytes, std::size_t count) {
    adler.add(bytes, count);
    while (count > 0) {
      if (in_block == 0) {
        in_block = std::min(left, kBlock);
        const auto length = static_cast<std::uint16_t>(in_block);
        const auto inverse = static_cast<std::uint16_t>(~length);
        *at++ = in_block == left ? 1 : 0;
        for (const std::uint16_t word : {length, inverse}) {
          *at++ = static_cast<std::uint8_t>(word & 0xffU);
          *at++ = static_cast<std::uint8_t>(word >> 8U);
        }
      }
      const std::size_t some = std::min(count, in_block);
      std::memcpy(at, bytes, some);
      at += some;
      bytes += some;
      count -= some;
      in_block -= some;
      left -= some;
    }
  };
  constexpr std::uint8_t kNoFilter = 0;
  for (int row = 0; row < height; ++row) {
    append(&kNoFilter, 1);
    append(pixels + static_cast<std::size_t>(row) * static_cast<std::size_t>(width), static_cast<std::size_t>(width));
  }
  put(at, adler.value());
  std::uint8_t* const end = begin_chunk(end_chunk(content, size), 0, "IEND");
  end_chunk(end, 0);
}

}  // namespace millrace

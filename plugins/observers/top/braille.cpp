#include "braille.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

namespace millrace::top {

Braille::Braille(int columns, int rows)
    : columns_(columns), rows_(rows), cells_(static_cast<std::size_t>(columns) * static_cast<std::size_t>(rows)) {}

void Braille::dot(int x, int y) {
  // U+2800 and a bit for each dot, by [row from the top][column].
  static constexpr unsigned char kBits[4][2] = {{0x01, 0x08}, {0x02, 0x10}, {0x04, 0x20}, {0x40, 0x80}};
  if (x < 0 || x >= width() || y < 0 || y >= height()) return;
  const int from_top = height() - 1 - y;
  cells_[static_cast<std::size_t>(from_top / 4 * columns_ + x / 2)] |= kBits[from_top % 4][x % 2];
}

void Braille::line(int x0, int y0, int x1, int y1) {
  const int steps = std::max({std::abs(x1 - x0), std::abs(y1 - y0), 1});
  for (int i = 0; i <= steps; ++i) {
    const double part = static_cast<double>(i) / steps;
    dot(static_cast<int>(std::lround(x0 + part * (x1 - x0))), static_cast<int>(std::lround(y0 + part * (y1 - y0))));
  }
}

std::vector<std::string> Braille::rows() const {
  std::vector<std::string> lines(static_cast<std::size_t>(rows_));
  for (std::size_t i = 0; i < cells_.size(); ++i) {
    std::string& line = lines[i / static_cast<std::size_t>(columns_)];
    line += '\xe2';
    line += static_cast<char>(0xa0 | cells_[i] >> 6);
    line += static_cast<char>(0x80 | (cells_[i] & 0x3f));
  }
  return lines;
}

}  // namespace millrace::top

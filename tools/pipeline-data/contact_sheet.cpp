#include "contact_sheet.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "class_overlay.h"

namespace millrace {

namespace {

constexpr int kGap = 8, kLargestSide = 256, kSmallestSide = 96;
constexpr Colour kGround = {250, 250, 248}, kInk = {40, 40, 44}, kFault = {176, 32, 32};

void draw_legend(Picture& picture, int top, const std::vector<std::string>& names, const std::vector<std::uint8_t>& classes) {
  int left = kGap;
  for (const std::uint8_t index : classes) {
    const std::string name = index < names.size() ? names[index] : fmt::format("class {}", index);
    const int width = 18 + text_width(name);
    if (left + width > picture.width() - kGap && left > kGap) {
      left = kGap;
      top += 14;
    }
    picture.rectangle(top, left, 9, 12, class_colour(index));
    picture.text(top + 1, left + 16, name, kInk);
    left += width + 12;
  }
}

int legend_height(int width, const std::vector<std::string>& names, const std::vector<std::uint8_t>& classes) {
  int lines = classes.empty() ? 0 : 1, left = kGap;
  for (const std::uint8_t index : classes) {
    const int wide = 18 + text_width(index < names.size() ? names[index] : fmt::format("class {}", index));
    if (left + wide > width - kGap && left > kGap) {
      left = kGap;
      ++lines;
    }
    left += wide + 12;
  }
  return lines == 0 ? 0 : 14 * lines + kGap;
}

}  // namespace

ImageShape cell_shape(ImageShape shape) { return drawn_shape(shape, kSmallestSide, kLargestSide); }

Picture contact_sheet(const std::vector<Cell>& cells, const std::vector<std::string>& names) {
  int height = kSmallestSide, width = kSmallestSide;
  std::size_t lines = 1;
  std::set<std::uint8_t> found;
  for (const Cell& cell : cells) {
    lines = std::max(lines, cell.captions.size());
    height = std::max({height, cell.shape.height, cell.target.empty() ? 0 : cell.target_shape.height});
    width = std::max(width, cell.shape.width + (cell.target.empty() ? 0 : cell.target_shape.width + 2));
    found.insert(cell.classes.begin(), cell.classes.end());
  }
  const std::vector<std::uint8_t> classes(found.begin(), found.end());
  const int count = static_cast<int>(cells.size());
  const int columns =
      std::min(count, std::max(1, static_cast<int>(std::ceil(std::sqrt(static_cast<double>(count) * height / width)))));
  const int rows = (count + columns - 1) / columns;
  const int cell_height = height + static_cast<int>(lines) * kLineHeight + 2 + kGap,
            sheet_width = columns * (width + kGap) + kGap;
  const int grid_height = rows * cell_height + kGap;
  Picture picture(grid_height + legend_height(sheet_width, names, classes), sheet_width, kGround);
  for (int i = 0; i < count; ++i) {
    const Cell& cell = cells[static_cast<std::size_t>(i)];
    const int top = kGap + i / columns * cell_height, left = kGap + i % columns * (width + kGap);
    if (!cell.fault.empty()) picture.rectangle(top, left, height, width, kFault);
    picture.image(top, left, {cell.pixels.data(), cell.shape});
    if (!cell.target.empty()) picture.image(top, left + cell.shape.width + 2, {cell.target.data(), cell.target_shape});
    int line = top + height + 3;
    for (const std::string& caption : cell.captions) {
      picture.text(line, left, shortened(caption, width), cell.fault.empty() ? kInk : kFault);
      line += kLineHeight;
    }
  }
  draw_legend(picture, grid_height, names, classes);
  return picture;
}

}  // namespace millrace

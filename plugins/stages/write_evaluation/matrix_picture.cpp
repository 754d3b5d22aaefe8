#include "matrix_picture.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "millrace/loss.h"

namespace millrace {
namespace {

constexpr Colour kGround = {255, 255, 255}, kInk = {36, 41, 47}, kFaint = {140, 146, 154};
constexpr Colour kLine = {225, 228, 232}, kNeverSeen = {243, 244, 246};
constexpr Colour kRight = {8, 81, 156}, kWrong = {190, 40, 30};
constexpr int kMargin = 24, kGap = 12, kSize = 2;  // kSize: of letters
constexpr int kTextLine = kSize * kLineHeight, kLetters = kSize * kTextHeight;
constexpr int kLargestCell = 80, kLargestSide = 1920, kLongestName = 240;
constexpr int kSwatchHeight = 20, kSwatchWidth = 80;
constexpr std::array kLegendShares = {0.01, 0.05, 0.1, 0.25, 0.5, 1.0};

// The names as they are written, and the room that the longest takes.
struct Names {
  Names(const std::vector<std::string>& names, int size) {
    if (size == 0) return;
    for (const std::string& name : names) {
      texts.push_back(shortened(name, kLongestName, size));
      width = std::max(width, text_width(texts.back(), size));
    }
  }
  std::vector<std::string> texts;
  int width = 0;
};

int name_size(int cell) { return cell >= kSize * kTextHeight + 2 ? kSize : cell > kTextHeight ? 1 : 0; }

// At most five letters.
std::string brief(double count) {
  if (count < 10'000) return fmt::format("{:.0f}", count);
  const char* unit = "k";
  count /= 1000;
  if (count >= 999.5) {
    count /= 1000;
    unit = "M";
  }
  return count < 99.95 ? fmt::format("{:.1f}{}", count, unit) : fmt::format("{:.0f}{}", count, unit);
}

std::string share_text(double share) {
  const double percent = 100 * share;
  return percent < 99.95 ? fmt::format("{:.1f} %", percent) : fmt::format("{:.0f} %", percent);
}

Colour ink_on(const Colour& ground) { return 299 * ground[0] + 587 * ground[1] + 114 * ground[2] < 140'000 ? kGround : kInk; }

// In the middle of a cell, as lines of letters of this size; what is wider than the cell is left out.
void write_into(Picture& picture, int top, int left, int cell, const std::vector<std::string>& lines, int size) {
  const int inner = cell - 1, count = static_cast<int>(lines.size());
  const Colour ink = ink_on(picture.at(top, left));
  int y = top + (inner - (count - 1) * size * kLineHeight - size * kTextHeight) / 2;
  for (const std::string& line : lines) {
    const int width = text_width(line, size);
    if (width < inner) picture.text(y, left + (inner - width + 1) / 2, line, ink, size);
    y += size * kLineHeight;
  }
}

void write_numbers(Picture& picture, int top, int left, int cell, double count, double share) {
  constexpr int kBoth = 40;  // pixels for a share such as "12.3 %" in the smallest letters
  if (cell >= kBoth) {
    write_into(picture, top, left, cell, {brief(count), share_text(share)}, cell >= kLargestCell ? kSize : 1);
  } else if (cell > kTextHeight && share >= 0.005) {
    write_into(picture, top, left, cell, {fmt::format("{:.0f}", 100 * share)}, 1);
  }
}

void draw_cells(Picture& picture, const MatrixLayout& at, const ClassMatrix& matrix) {
  const int side = static_cast<int>(matrix.classes()) * at.cell, inner = at.cell >= 4 ? at.cell - 1 : at.cell;
  picture.rectangle(at.top - 1, at.left - 1, side + 1, side + 1, kLine);
  for (std::size_t of = 0; of < matrix.classes(); ++of) {
    const double all = matrix.occurring(of);
    for (std::size_t as = 0; as < matrix.classes(); ++as) {
      const int top = at.top + static_cast<int>(of) * at.cell, left = at.left + static_cast<int>(as) * at.cell;
      const double count = matrix.count(of, as), share = quotient(count, all);
      picture.rectangle(top, left, inner, inner, all > 0 ? share_colour(share, of == as) : kNeverSeen);
      if (count > 0) write_numbers(picture, top, left, at.cell, count, share);
    }
  }
}

void draw_names(Picture& picture, const MatrixLayout& at, const ClassMatrix& matrix, const Names& names) {
  const int inset = (at.cell - at.name_size * kTextHeight) / 2;
  for (std::size_t c = 0; c < names.texts.size(); ++c) {
    const std::string& text = names.texts[c];
    const int place = static_cast<int>(c) * at.cell + inset;
    const Colour ink = matrix.occurring(c) > 0 ? kInk : kFaint;
    picture.text(at.top + place, at.left - kGap - text_width(text, at.name_size), text, ink, at.name_size);
    picture.text_upward(at.top - kGap, at.left + place, text, ink, at.name_size);
  }
}

void draw_titles(Picture& picture, const MatrixLayout& at, int side, const std::string& heading) {
  picture.text(kMargin, kMargin, heading, kInk, kSize);
  picture.text(kMargin + kTextLine + kGap, at.left + std::max(0, side - text_width("predicted", kSize)) / 2, "predicted", kFaint,
               kSize);
  picture.text_upward(at.top + (side + text_width("label", kSize)) / 2, kMargin, "label", kFaint, kSize);
}

constexpr int kLegendHeight = 2 * kSwatchHeight + kGap + kTextLine + kLetters;
constexpr std::string_view kLegendTitle = "share of each label";
constexpr int kLegendWidth = kSwatchWidth * static_cast<int>(kLegendShares.size());

void draw_legend(Picture& picture, int top, int left) {
  int x = left;
  for (const double share : kLegendShares) {
    picture.rectangle(top, x, kSwatchHeight - 1, kSwatchWidth - 1, share_colour(share, true));
    picture.rectangle(top + kSwatchHeight, x, kSwatchHeight - 1, kSwatchWidth - 1, share_colour(share, false));
    picture.text(top + 2 * kSwatchHeight + kGap / 2, x, fmt::format("{:.0f} %", 100 * share), kInk, kSize);
    x += kSwatchWidth;
  }
  picture.text(top + (kSwatchHeight - kLetters) / 2, x + kGap, "right", kInk, kSize);
  picture.text(top + kSwatchHeight + (kSwatchHeight - kLetters) / 2, x + kGap, "wrong", kInk, kSize);
  picture.text(top + 2 * kSwatchHeight + kGap / 2 + kTextLine, left, kLegendTitle, kFaint, kSize);
}

}  // namespace

Colour share_colour(double share, bool right) {
  const double depth = std::sqrt(std::clamp(share, 0.0, 1.0));
  const Colour& full = right ? kRight : kWrong;
  Colour colour;
  for (std::size_t c = 0; c < colour.size(); ++c) {
    colour[c] = static_cast<std::uint8_t>(std::lround(kGround[c] + depth * (full[c] - kGround[c])));
  }
  return colour;
}

MatrixLayout matrix_layout(const std::vector<std::string>& names) {
  MatrixLayout at;
  at.cell = std::clamp(kLargestSide / std::max(1, static_cast<int>(names.size())), 1, kLargestCell);
  at.name_size = name_size(at.cell);
  const int width = Names(names, at.name_size).width, room = width > 0 ? width + kGap : 0;
  at.top = kMargin + 2 * (kTextLine + kGap) + room;
  at.left = kMargin + kTextLine + kGap + room;
  return at;
}

Picture matrix_picture(const ClassMatrix& matrix, const std::vector<std::string>& names, std::string_view counted) {
  const MatrixLayout at = matrix_layout(names);
  const int side = static_cast<int>(matrix.classes()) * at.cell;
  const std::string heading = fmt::format("{:.0f} {}, accuracy {:.2f} %", matrix.total(), counted, 100 * matrix.accuracy());
  const int legend = kLegendWidth + kGap + text_width("wrong", kSize);
  const int right = std::max(at.left + std::max(side, legend), kMargin + text_width(heading, kSize));
  Picture picture(at.top + side + 2 * kGap + kLegendHeight + kMargin, right + kMargin, kGround);
  draw_titles(picture, at, side, heading);
  draw_cells(picture, at, matrix);
  draw_names(picture, at, matrix, Names(names, at.name_size));
  draw_legend(picture, at.top + side + 2 * kGap, at.left);
  return picture;
}

}  // namespace millrace

#include "outlines.h"

#include <cmath>
#include <cstddef>
#include <numbers>

#include "millrace/error.h"

namespace millrace {

namespace {

struct Turn {
  double cosine, sine, x, y;

  Turn(double degrees, double about_x, double about_y)
      : cosine(std::cos(degrees * std::numbers::pi / 180)),
        sine(std::sin(degrees * std::numbers::pi / 180)),
        x(about_x),
        y(about_y) {}
  void add(double from_x, double from_y, std::vector<double>& points) const {
    points.push_back(x + cosine * (from_x - x) - sine * (from_y - y));
    points.push_back(y + sine * (from_x - x) + cosine * (from_y - y));
  }
};

}  // namespace

std::vector<double> turned_box(double left, double top, double width, double height, double degrees, double about_x,
                               double about_y) {
  const Turn turn(degrees, about_x, about_y);
  std::vector<double> points;
  turn.add(left, top, points);
  turn.add(left + width, top, points);
  turn.add(left + width, top + height, points);
  turn.add(left, top + height, points);
  return points;
}

std::vector<double> ellipse(double centre_x, double centre_y, double radius_x, double radius_y, double degrees) {
  constexpr int kCorners = 64;
  const Turn turn(degrees, centre_x, centre_y);
  std::vector<double> points;
  for (int corner = 0; corner < kCorners; ++corner) {
    const double angle = 2 * std::numbers::pi * corner / kCorners;
    turn.add(centre_x + radius_x * std::cos(angle), centre_y + radius_y * std::sin(angle), points);
  }
  return points;
}

std::vector<std::uint32_t> runs_by_column(const std::vector<double>& runs, const ImagePart& part, int width, int height) {
  constexpr std::int64_t kMaxPixels = std::int64_t{1} << 28;
  const bool fits = part.left >= 0 && part.top >= 0 && part.width >= 0 && part.height >= 0 &&
                    std::int64_t{part.left} + part.width <= width && std::int64_t{part.top} + part.height <= height &&
                    std::int64_t{width} * height <= kMaxPixels;
  if (!fits)
    fail(ErrorKind::data, "a mask of {} x {} pixels at {}, {} leaves its image of {} x {}", part.width, part.height, part.left,
         part.top, width, height);
  const auto pixels = static_cast<std::size_t>(part.width) * static_cast<std::size_t>(part.height);
  std::vector<std::uint8_t> inside;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const bool is_sound =
        runs[i] >= 0 && runs[i] <= static_cast<double>(pixels - inside.size()) && runs[i] == std::floor(runs[i]);
    if (!is_sound) fail(ErrorKind::data, "run {} of a mask of {} pixels has the length {}", i, pixels, runs[i]);
    inside.resize(inside.size() + static_cast<std::size_t>(runs[i]), i % 2 == 1 ? 1 : 0);
  }
  if (inside.size() != pixels) fail(ErrorKind::data, "the runs of a mask cover {} pixels of {}", inside.size(), pixels);
  std::vector<std::uint32_t> lengths(1);
  std::uint32_t ends = 0;  // pixels of the image, in column order, that are in runs
  const auto add = [&](std::uint32_t begin, std::uint32_t length) {
    if (begin == ends && lengths.size() % 2 == 0) {
      lengths.back() += length;
    } else {
      if (lengths.size() % 2 == 0) lengths.push_back(0);
      lengths.back() += begin - ends;
      lengths.push_back(length);
    }
    ends = begin + length;
  };
  for (int x = 0; x < part.width; ++x) {
    for (int y = 0; y < part.height; ++y) {
      if (inside[static_cast<std::size_t>(y) * static_cast<std::size_t>(part.width) + static_cast<std::size_t>(x)] != 0)
        add(static_cast<std::uint32_t>((part.left + x) * std::int64_t{height} + part.top + y), 1);
    }
  }
  if (lengths.size() % 2 == 0) lengths.push_back(0);
  lengths.back() += static_cast<std::uint32_t>(std::int64_t{width} * height) - ends;
  return lengths;
}

}  // namespace millrace

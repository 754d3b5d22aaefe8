#include "boundary_f1.h"

#include <algorithm>
#include <cmath>

namespace millrace {
namespace {

constexpr std::uint8_t kNone = 255;

struct Offset {
  int dy = 0, dx = 0;
  int square() const { return dy * dy + dx * dx; }
};

// All offsets within the distance, nearest first.
std::vector<Offset> offsets_within(double distance) {
  const int reach = static_cast<int>(distance);
  std::vector<Offset> offsets;
  for (int dy = -reach; dy <= reach; ++dy) {
    for (int dx = -reach; dx <= reach; ++dx) {
      if (std::sqrt(static_cast<double>(Offset{dy, dx}.square())) <= distance) offsets.push_back({dy, dx});
    }
  }
  std::stable_sort(offsets.begin(), offsets.end(), [](const Offset& a, const Offset& b) { return a.square() < b.square(); });
  return offsets;
}

class Grid {
 public:
  Grid(const ClassMaps& maps, std::span<const std::uint8_t> classes) : height_(maps.height), width_(maps.width) {
    values_.reserve(classes.size());
    for (std::size_t i = 0; i < classes.size(); ++i) {
      const bool counts = maps.truth[i] < maps.classes && classes[i] < maps.classes;
      values_.push_back(counts ? classes[i] : kNone);
    }
  }

  int height() const { return height_; }
  int width() const { return width_; }
  std::uint8_t at(int y, int x) const {
    if (y < 0 || x < 0 || y >= height_ || x >= width_) return kNone;
    return values_[static_cast<std::size_t>(y) * static_cast<std::size_t>(width_) + static_cast<std::size_t>(x)];
  }
  // Boundary pixels keep their class; all others have none.
  Grid boundaries() const {
    Grid found = *this;
    std::size_t place = 0;
    for (int y = 0; y < height_; ++y) {
      for (int x = 0; x < width_; ++x, ++place) {
        const std::uint8_t c = at(y, x);
        if (at(y - 1, x) == c && at(y + 1, x) == c && at(y, x - 1) == c && at(y, x + 1) == c) found.values_[place] = kNone;
      }
    }
    return found;
  }

 private:
  int height_, width_;
  std::vector<std::uint8_t> values_;
};

// Boundary pixels of each class, and how many are near one of the other grid.
struct Found {
  double all = 0, near = 0;
  double share() const { return near / all; }
};

std::vector<Found> look_for(const Grid& boundaries, const Grid& others, std::size_t classes, const std::vector<Offset>& offsets) {
  std::vector<Found> found(classes);
  for (int y = 0; y < boundaries.height(); ++y) {
    for (int x = 0; x < boundaries.width(); ++x) {
      const std::uint8_t c = boundaries.at(y, x);
      if (c == kNone) continue;
      found[c].all += 1;
      const bool near =
          std::any_of(offsets.begin(), offsets.end(), [&](const Offset& by) { return others.at(y + by.dy, x + by.dx) == c; });
      if (near) found[c].near += 1;
    }
  }
  return found;
}

}  // namespace

std::vector<std::optional<double>> boundary_f1(const ClassMaps& maps, double tolerance) {
  const std::vector<Offset> offsets = offsets_within(tolerance * std::hypot(maps.height, maps.width));
  const Grid truth = Grid(maps, maps.truth).boundaries(), predicted = Grid(maps, maps.predicted).boundaries();
  const std::vector<Found> precision = look_for(predicted, truth, maps.classes, offsets);
  const std::vector<Found> recall = look_for(truth, predicted, maps.classes, offsets);
  std::vector<std::optional<double>> figures(maps.classes);
  for (std::size_t c = 0; c < maps.classes; ++c) {
    if (precision[c].all == 0 && recall[c].all == 0) continue;
    const bool both = precision[c].near > 0 && recall[c].near > 0;
    figures[c] = both ? 2 * precision[c].share() * recall[c].share() / (precision[c].share() + recall[c].share()) : 0.0;
  }
  return figures;
}

}  // namespace millrace

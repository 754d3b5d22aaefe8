// Axes with numbers, and curves.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "picture.h"

namespace millrace::drawing {

// The range of an axis, and its round numbers.
class Scale {
 public:
  // percent: linear, of shares from 0 to 1; count: linear, only whole numbers; blank: linear, without numbers
  enum class Kind { linear, logarithmic, percent, count, blank };

  // REQUIRES: low < high, both finite; with logarithmic, both above 0.
  Scale(double low, double high, Kind kind = Kind::linear) : low_(low), high_(high), kind_(kind) {}
  // A scale that contains all finite values, with round ends; 0 to 1 if there are none.
  static Scale around(std::span<const double> values, Kind kind = Kind::linear);

  double low() const { return low_; }
  double high() const { return high_; }
  double place(double value) const;  // low: 0, high: 1. Non-finite values stay.

  struct Tick {
    double value = 0;
    std::string text;
  };
  std::vector<Tick> ticks(int most) const;  // REQUIRES: most >= 2. All texts differ; empty for a blank scale

 private:
  double low_, high_;
  Kind kind_;
};

// An axis label: "0.001", "1e-5", "2.5", "12k", "3M". `step`: distance to the next label.
std::string number_text(double value, double step);

// The constructor draws the axes; curves follow. The picture must outlive it.
class Plot {
 public:
  struct Titles {
    std::string_view top, x;
  };
  // `area`: the whole plot, including numbers and titles.
  Plot(Picture& picture, const Area& area, const Scale& x, const Scale& y, const Titles& titles);

  const Area& inside() const { return inside_; }
  Point at(double x, double y) const;

  void curve(std::span<const Point> values, LineStyle style);  // clipped
  void dots(std::span<const Point> values, double radius, LineStyle style);
  void band(double from_x, double to_x, Colour colour, double opacity);  // from top to bottom
  void mark(double x, const LineStyle& style);                           // a vertical line

  struct Key {
    std::string text;
    Colour colour;
    bool dotted = false;  // marks instead of a line
  };
  void legend(const std::vector<Key>& keys);  // next to the title, at the right; entries that do not fit are left out

 private:
  void draw_x(const Scale& x, double numbers, std::string_view title);
  void draw_y(const Scale& y, const std::vector<Scale::Tick>& ticks);

  Picture& picture_;
  Scale x_, y_;
  Area area_, inside_;
  double title_right_ = 0;
};

}  // namespace millrace::drawing

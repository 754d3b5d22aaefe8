#include "matrix.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "counts.h"
#include "millrace/loss.h"

namespace millrace::drawing {
namespace {

constexpr Colour kNeverSeen = {240, 242, 244}, kRight = {8, 81, 156};
constexpr double kMargin = 20, kGap = 8, kHeading = 15, kSmall = 11, kTitle = 12;
constexpr double kLargestCell = 40, kLargestSide = 960, kLongestName = 250, kLargestName = 11, kSmallestName = 6.5;
constexpr double kDrawnOneByOne = 6;  // units; smaller cells are pixels of one image
constexpr std::array kLegendShares = {0.01, 0.05, 0.1, 0.25, 0.5, 1.0};
constexpr double kSwatchHeight = 14, kSwatchWidth = 48;
constexpr double kLegendHeight = 2 * kSwatchHeight + 2 * kGap + 2 * 15;

// A whole number of pixels at the usual scale of 2.
double cell_of(std::size_t classes) {
  const double rough = kLargestSide / static_cast<double>(std::max(classes, std::size_t{1}));
  if (rough >= kDrawnOneByOne) return std::min(std::floor(rough), kLargestCell);
  return rough >= 1 ? std::floor(2 * rough) / 2 : rough > 0.9 ? 1 : 0.5;
}

double widest(const std::vector<std::string>& names, double size) {
  double width = 0;
  for (const std::string& name : names) width = std::max(width, extent_of(name, {.size = size, .most = kLongestName}).width);
  return width;
}

class Drawer {
 public:
  Drawer(Picture& picture, const MatrixLayout& at, const ClassMatrix& matrix) : picture_(picture), at_(at), matrix_(matrix) {}

  void cells() {
    const double side = at_.cell * static_cast<double>(matrix_.classes());
    picture_.fill({at_.left - 0.5, at_.top - 0.5, side + 1, side + 1}, kFaint);  // a frame around the cells
    picture_.fill({at_.left, at_.top, side, side}, kPaper);
    if (at_.cell >= kDrawnOneByOne) {
      for (std::size_t of = 0; of < matrix_.classes(); ++of) row(of);
    } else {
      picture_.image({at_.left, at_.top, side, side}, ImageView(pixels().data(), shape()));
    }
  }

  void names(const std::vector<std::string>& names) {
    const double down = (at_.cell - line_height(at_.name_size)) / 2;
    for (std::size_t c = 0; c < names.size(); c += at_.name_every) {
      const double place = static_cast<double>(c) * at_.cell;
      TextStyle style = {.size = at_.name_size, .align = Align::right, .most = kLongestName};
      style.colour = matrix_.occurring(c) > 0 ? kInk : kFaint;
      if (at_.name_every > 1) {
        const double middle = place + at_.cell / 2;
        picture_.line({at_.left - 4, at_.top + middle}, {at_.left - 1, at_.top + middle}, {.colour = kFaint, .thickness = 0.5});
        picture_.line({at_.left + middle, at_.top - 4}, {at_.left + middle, at_.top - 1}, {.colour = kFaint, .thickness = 0.5});
      }
      picture_.text({at_.left - kGap, at_.top + place + down}, names[c], style);
      style.align = Align::left;
      style.upward = true;
      picture_.text({at_.left + place + down, at_.top - kGap}, names[c], style);
    }
  }

  void legend(double top) {
    double left = at_.left;
    for (const double share : kLegendShares) {
      picture_.fill({left, top, kSwatchWidth, kSwatchHeight}, share_colour(share, true));
      picture_.fill({left, top + kSwatchHeight, kSwatchWidth, kSwatchHeight}, share_colour(share, false));
      picture_.text({left + kSwatchWidth / 2, top + 2 * kSwatchHeight + 3}, fmt::format("{:.0f} %", 100 * share),
                    {.size = kSmall, .align = Align::centre});
      left += kSwatchWidth;
    }
    const double down = (kSwatchHeight - line_height(kSmall)) / 2;
    picture_.text({left + kGap, top + down}, "right", {.size = kSmall});
    picture_.text({left + kGap, top + kSwatchHeight + down}, "wrong", {.size = kSmall});
    picture_.text({at_.left, top + 2 * kSwatchHeight + 3 + line_height(kSmall)}, "share of each label",
                  {.size = kSmall, .colour = kFaint});
  }

 private:
  ImageShape shape() const {
    const int side = static_cast<int>(matrix_.classes());
    return {side, side, 3};
  }
  Colour colour(std::size_t of, std::size_t as, double occurring) const {
    return occurring > 0 ? share_colour(matrix_.count(of, as) / occurring, of == as) : kNeverSeen;
  }
  const std::vector<std::uint8_t>& pixels() {
    for (std::size_t of = 0; of < matrix_.classes(); ++of) {
      const double occurring = matrix_.occurring(of);
      for (std::size_t as = 0; as < matrix_.classes(); ++as) {
        const Colour found = colour(of, as, occurring);
        pixels_.insert(pixels_.end(), found.begin(), found.end());
      }
    }
    return pixels_;
  }
  void row(std::size_t of) {
    const double occurring = matrix_.occurring(of), top = at_.top + static_cast<double>(of) * at_.cell;
    for (std::size_t as = 0; as < matrix_.classes(); ++as) {
      const Area cell = {at_.left + static_cast<double>(as) * at_.cell, top, at_.cell, at_.cell};
      const Colour ground = colour(of, as, occurring);
      if (ground != kPaper) picture_.fill(cell, ground);
      if (at_.cell >= 10) picture_.frame(cell, kOptimizer, 0.5);
      if (matrix_.count(of, as) > 0) numbers(cell, matrix_.count(of, as), matrix_.count(of, as) / occurring, ink_on(ground));
    }
  }
  void numbers(const Area& cell, double count, double share, Colour ink) {
    if (cell.width >= 36) {
      write(brief_count(count), cell, -line_height(8.5), 10, ink);
      write(share_text(share), cell, line_height(9), 8, ink);
    } else if (share >= 0.005) {
      write(fmt::format("{:.0f}", 100 * share), cell, 0, std::min(10.0, 0.55 * cell.width), ink);
    }
  }
  // Centred in the cell, shifted down by `down` from the middle; omitted if wider than the cell.
  void write(const std::string& text, const Area& cell, double down, double size, Colour ink) {
    if (size < 5 || extent_of(text, {.size = size}).width > cell.width - 2) return;
    const double top = cell.middle().y + (down - line_height(size)) / 2;
    picture_.text({cell.middle().x, top}, text, {.size = size, .colour = ink, .align = Align::centre});
  }

  Picture& picture_;
  const MatrixLayout& at_;
  const ClassMatrix& matrix_;
  std::vector<std::uint8_t> pixels_;
};

}  // namespace

Colour share_colour(double share, bool right) {
  return mixed(kPaper, right ? kRight : kRed, std::sqrt(std::clamp(share, 0.0, 1.0)));
}

MatrixLayout matrix_layout(const std::vector<std::string>& names) {
  MatrixLayout at;
  at.cell = cell_of(names.size());
  at.name_size = std::clamp(0.72 * at.cell, kSmallestName, kLargestName);
  at.name_every = static_cast<std::size_t>(std::max(1.0, std::ceil(line_height(at.name_size) / at.cell - 1e-9)));
  const double room = std::ceil(widest(names, at.name_size)) + kGap;
  // Whole units, so that cells are whole pixels.
  at.top = std::ceil(kMargin + line_height(kHeading) + line_height(kSmall) + line_height(kTitle) + 2 * kGap + room);
  at.left = std::ceil(kMargin + line_height(kTitle) + kGap + room);
  return at;
}

std::size_t confusion_memory_bound(std::size_t classes) {
  if (classes > kMaxDrawnClasses || !can_draw()) return 0;
  constexpr double kScale = 2, kAround = kLongestName + kLegendHeight + 100;
  constexpr std::size_t kKept = 3 + 4, kDrawn = 4 + 3 + 3;  // bytes per pixel: RGB, cairo's format, and the file
  const double side = kScale * (cell_of(classes) * static_cast<double>(classes) + kAround);
  return static_cast<std::size_t>(side * side) * kDrawn + classes * classes * kKept;
}

Picture confusion(const ClassMatrix& matrix, const std::vector<std::string>& names, bool of_pixels, const std::string& heading) {
  const MatrixLayout at = matrix_layout(names);
  const double side = at.cell * static_cast<double>(matrix.classes());
  const std::string counted = fmt::format("{} {}, accuracy {:.2f} %", whole_text(matrix.total()), of_pixels ? "pixels" : "images",
                                          100 * matrix.accuracy());
  const std::string title = heading.empty() ? std::string("confusion matrix") : heading;
  const double legend = kSwatchWidth * static_cast<double>(kLegendShares.size()) + 60;
  const double inner = std::max({at.left + std::max(side, legend), kMargin + extent_of(counted, {.size = kSmall}).width,
                                 kMargin + std::min(extent_of(title, {.size = kHeading, .bold = true}).width, 900.0)});
  Picture picture(inner + kMargin, at.top + side + 2 * kGap + kLegendHeight + kMargin);
  picture.text({kMargin, kMargin}, title, {.size = kHeading, .bold = true, .most = inner - kMargin});
  picture.text({kMargin, kMargin + line_height(kHeading) + 2}, counted, {.size = kSmall, .colour = kFaint});
  const double names_top = kMargin + line_height(kHeading) + line_height(kSmall) + kGap;
  picture.text({at.left + std::max(side / 2, 30.0), names_top}, "predicted",
               {.size = kTitle, .colour = kFaint, .align = Align::centre});
  picture.text({kMargin, at.top + side / 2}, "label", {.size = kTitle, .colour = kFaint, .align = Align::centre, .upward = true});
  Drawer drawer(picture, at, matrix);
  drawer.cells();
  drawer.names(names);
  drawer.legend(at.top + side + 2 * kGap);
  return picture;
}

}  // namespace millrace::drawing

// Pictures for plugins and tools: one drawing, written as a PNG or SVG file. A library, not a plugin.
//
//   drawing::Picture picture(320, 200);
//   picture.text({16, 12}, "naïve Bayes, 朴素贝叶斯", {.size = 16, .bold = true});
//   picture.line(points, {.colour = drawing::kBlue, .thickness = 2});
//   write(picture.png(2));
//
// Coordinates are units: pixels at scale 1, to the right and down.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "millrace/sample.h"

namespace millrace::drawing {

using Colour = std::array<std::uint8_t, 3>;  // R, G, B

inline constexpr Colour kPaper = {255, 255, 255}, kInk = {31, 35, 40}, kFaint = {110, 118, 129}, kOptimizer = {222, 226, 231};
// Colours that people with red-green colour blindness can distinguish: Okabe and Ito, "Color Universal Design" (2008).
inline constexpr Colour kBlue = {0, 114, 178}, kOrange = {213, 94, 0}, kGreen = {0, 158, 115}, kPurple = {170, 80, 140},
                        kYellow = {230, 159, 0}, kSky = {86, 180, 233};
inline constexpr Colour kRed = {190, 40, 30};  // for errors

Colour mixed(Colour from, Colour to, double share);  // share 0: from, 1: to
// Ink or paper, whichever is more readable on this ground.
Colour ink_on(Colour ground);

struct Point {
  double x = 0, y = 0;
};

struct Area {
  double left = 0, top = 0, width = 0, height = 0;

  double right() const { return left + width; }
  double bottom() const { return top + height; }
  Point middle() const { return {left + width / 2, top + height / 2}; }
  bool meets(const Area& other) const;  // true if they share more than an edge
};

enum class Align { left, centre, right };

struct TextStyle {
  double size = 12;  // size of letters, in units
  Colour colour = kInk;
  bool bold = false;
  Align align = Align::left;  // relative to the given place
  bool upward = false;        // rotated to the left: begins at the bottom and reads upward
  double most = 0;            // maximum width: longer text is cut and ends with "…"; 0: unlimited
};

struct LineStyle {
  Colour colour = kInk;
  double thickness = 1;
  double opacity = 1;
  bool dashed = false;
  const Area* within = nullptr;  // clips to this area; null: no clipping
};

// Letter sizes for text in any script.
struct TextExtent {
  double width = 0;
  double height = 0;  // line height
};
TextExtent extent_of(std::string_view text, const TextStyle& style);
double line_height(double size);  // from one line's top to the next

bool can_draw();  // true if this build has cairo and FriBidi; without them the constructor of Picture throws Error(run)

// Loads the installed fonts, once for all threads; otherwise the first text does. Code that draws at a run's end calls this at
// its beginning: fontconfig ends the program if memory is short, and at the beginning nothing is lost. Throws std::bad_alloc if
// memory is short. Without cairo it does nothing.
void load_fonts();

struct Raster {
  int height = 0, width = 0;
  std::vector<std::uint8_t> pixels;  // (height, width, 3)

  Colour at(int y, int x) const;  // REQUIRES: inside the image
};

// Drawing beyond the edges is lost. Texts are UTF-8 in any script with an installed font. A character without a font is a box;
// invalid bytes are written \xNN. The same calls give the same pixels with the same fonts. Not thread-safe; several threads may
// each draw one.
class Picture {
 public:
  Picture(double width, double height, Colour ground = kPaper);
  Picture(Picture&&) noexcept;
  ~Picture();

  double width() const { return width_; }
  double height() const { return height_; }

  void fill(const Area& area, Colour colour, double opacity = 1);
  void frame(const Area& area, Colour colour, double thickness = 1);
  // Through all points; a non-finite one leaves a gap.
  void line(std::span<const Point> points, const LineStyle& style);
  void line(Point from, Point to, const LineStyle& style);
  void dots(std::span<const Point> points, double radius, const LineStyle& style);
  // Draws an image of 1 or 3 channels (otherwise its first), scaled to fit. Enlarged pixels stay sharp.
  void image(const Area& area, const ImageView& image);
  // `at` is the aligned point at the top of the line; for upward text, `at` is at the left edge of its line, and left-aligned
  // text begins there.
  void text(Point at, std::string_view text, const TextStyle& style = {});

  Raster raster(double scale = 2) const;    // scale: pixels per unit
  std::string png(double scale = 2) const;  // the same, encoded as a file
  std::string svg() const;

  struct PlacedText {
    std::string text;
    Area ink;  // covered by its letters
  };
  const std::vector<PlacedText>& texts() const;  // all drawn ones, in order

 private:
  struct State;
  double width_, height_;
  std::unique_ptr<State> state_;
};

}  // namespace millrace::drawing

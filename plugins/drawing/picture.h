// Pictures that plugins and tools draw: one drawing, which becomes a PNG file or an SVG file. A library and no plugin.
//
//   drawing::Picture picture(320, 200);
//   picture.text({16, 12}, "naïve Bayes, 朴素贝叶斯", {.size = 16, .bold = true});
//   picture.line(points, {.colour = drawing::kBlue, .thickness = 2});
//   write(picture.png(2));
//
// Coordinates are units: pixels of a picture that is drawn once as large. They go to the right and down.
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
// Colours that people who see no red or no green tell apart: Okabe and Ito, "Color Universal Design" (2008).
inline constexpr Colour kBlue = {0, 114, 178}, kOrange = {213, 94, 0}, kGreen = {0, 158, 115}, kPurple = {170, 80, 140},
                        kYellow = {230, 159, 0}, kSky = {86, 180, 233};
inline constexpr Colour kRed = {190, 40, 30};  // of what is wrong

Colour mixed(Colour from, Colour to, double share);  // share 0: from, 1: to
// Ink or paper, whichever reads better on this ground.
Colour ink_on(Colour ground);

struct Point {
  double x = 0, y = 0;
};

struct Area {
  double left = 0, top = 0, width = 0, height = 0;

  double right() const { return left + width; }
  double bottom() const { return top + height; }
  Point middle() const { return {left + width / 2, top + height / 2}; }
  bool meets(const Area& other) const;  // they share more than an edge
};

enum class Align { left, centre, right };

struct TextStyle {
  double size = 12;  // of the letters, in units
  Colour colour = kInk;
  bool bold = false;
  Align align = Align::left;  // of the text at the place it is drawn at
  bool upward = false;        // turned to the left: it begins at the bottom and reads upward
  double most = 0;            // width: of a longer text the end is left out, with "…" for it; 0: any
};

struct LineStyle {
  Colour colour = kInk;
  double thickness = 1;
  double opacity = 1;
  bool dashed = false;
  const Area* within = nullptr;  // what lies outside is not drawn; null: all of it is
};

// How large the letters of a text of any script are.
struct TextExtent {
  double width = 0;
  double height = 0;  // of a line
};
TextExtent extent_of(std::string_view text, const TextStyle& style);
double line_height(double size);  // from a line's top to that of the next one

bool can_draw();  // whether this build has cairo and FriBidi; without them a Picture throws Error(run) when it is made

// Looks for the installed fonts, once for all threads; else the first text does. What draws at a run's end calls it at its
// beginning: where memory is lacking, fontconfig ends the program, and then nothing is lost by it. Throws std::bad_alloc where
// memory is short. Without cairo it does nothing.
void load_fonts();

struct Raster {
  int height = 0, width = 0;
  std::vector<std::uint8_t> pixels;  // (height, width, 3)

  Colour at(int y, int x) const;  // REQUIRES: within it
};

// What is drawn beyond the edges is lost. Texts are UTF-8 in any script that a font is installed for. A character without a font
// is a box; bytes that are no UTF-8 are written \xNN. The same calls give the same pixels where the fonts are the
// same. Not thread-safe; several threads may each draw one.
class Picture {
 public:
  Picture(double width, double height, Colour ground = kPaper);
  Picture(Picture&&) noexcept;
  ~Picture();

  double width() const { return width_; }
  double height() const { return height_; }

  void fill(const Area& area, Colour colour, double opacity = 1);
  void frame(const Area& area, Colour colour, double thickness = 1);
  // Through all points; one that is not finite leaves a gap.
  void line(std::span<const Point> points, const LineStyle& style);
  void line(Point from, Point to, const LineStyle& style);
  void dots(std::span<const Point> points, double radius, const LineStyle& style);
  // An image of 1 or 3 channels, of others the first; made to fit. Enlarged pixels stay sharp.
  void image(const Area& area, const ImageView& image);
  // Aligned to `at`, which is the top of its line; of an upward text, `at` is the left edge of its line, and text that is aligned
  // to the left begins there.
  void text(Point at, std::string_view text, const TextStyle& style = {});

  Raster raster(double scale = 2) const;    // with so many pixels for a unit
  std::string png(double scale = 2) const;  // the same as the bytes of a file
  std::string svg() const;

  struct PlacedText {
    std::string text;
    Area ink;  // that its letters cover
  };
  const std::vector<PlacedText>& texts() const;  // all that were drawn, in this order

 private:
  struct State;
  double width_, height_;
  std::unique_ptr<State> state_;
};

}  // namespace millrace::drawing

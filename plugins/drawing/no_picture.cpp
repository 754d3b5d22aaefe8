// For builds without cairo and FriBidi.
#include "millrace/error.h"
#include "picture.h"

namespace millrace::drawing {

struct Picture::State {};

bool can_draw() { return false; }
void load_fonts() {}
TextExtent extent_of(std::string_view, const TextStyle& style) { return {0, line_height(style.size)}; }

Picture::Picture(double width, double height, Colour) : width_(width), height_(height) {
  fail(ErrorKind::run, "this build cannot draw: it was made without cairo and FriBidi (Debian: libcairo2-dev, libfribidi-dev)");
}
Picture::Picture(Picture&&) noexcept = default;
Picture::~Picture() = default;
void Picture::fill(const Area&, Colour, double) {}
void Picture::frame(const Area&, Colour, double) {}
void Picture::line(std::span<const Point>, const LineStyle&) {}
void Picture::line(Point, Point, const LineStyle&) {}
void Picture::dots(std::span<const Point>, double, const LineStyle&) {}
void Picture::image(const Area&, const ImageView&) {}
void Picture::text(Point, std::string_view, const TextStyle&) {}
Raster Picture::raster(double) const { return {}; }
std::string Picture::png(double) const { return {}; }
std::string Picture::svg() const { return {}; }
const std::vector<Picture::PlacedText>& Picture::texts() const {
  static const std::vector<PlacedText> kNone;
  return kNone;
}

}  // namespace millrace::drawing

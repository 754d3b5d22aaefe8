#include "picture.h"

#include <cairo-svg.h>
#include <cairo.h>
#include <png_file.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "millrace/error.h"
#include "release.h"
#include "text_line.h"

namespace millrace::drawing {
namespace {

using Surface = std::unique_ptr<cairo_surface_t, Release<cairo_surface_destroy>>;
using Context = std::unique_ptr<cairo_t, Release<cairo_destroy>>;
void set_colour(cairo_t* to, Colour colour, double opacity = 1) {
  cairo_set_source_rgba(to, colour[0] / 255.0, colour[1] / 255.0, colour[2] / 255.0, opacity);
}

void check(cairo_status_t status) {
  if (status != CAIRO_STATUS_SUCCESS) fail(ErrorKind::run, "cannot draw a picture: {}", cairo_status_to_string(status));
}

cairo_status_t append(void* text, const unsigned char* bytes, unsigned int count) {
  static_cast<std::string*>(text)->append(reinterpret_cast<const char*>(bytes), count);
  return CAIRO_STATUS_SUCCESS;
}

Surface pixels_of(const ImageView& image) {
  Surface surface(cairo_image_surface_create(CAIRO_FORMAT_RGB24, image.shape.width, image.shape.height));
  check(cairo_surface_status(surface.get()));
  const auto channels = static_cast<std::size_t>(image.shape.channels);
  const std::uint8_t* pixel = image.data;
  unsigned char* row = cairo_image_surface_get_data(surface.get());
  for (int y = 0; y < image.shape.height; ++y, row += cairo_image_surface_get_stride(surface.get())) {
    auto* to = reinterpret_cast<std::uint32_t*>(row);
    for (int x = 0; x < image.shape.width; ++x, pixel += channels) {
      const std::uint32_t red = pixel[0], green = channels == 3 ? pixel[1] : red, blue = channels == 3 ? pixel[2] : red;
      to[x] = red << 16 | green << 8 | blue;
    }
  }
  cairo_surface_mark_dirty(surface.get());
  return surface;
}

// Cairo numbers surfaces and images across all pictures of the program, so equal pictures would differ as text: this renumbers
// them in order of occurrence.
std::string with_own_numbers(const std::string& svg) {
  static constexpr std::string_view kNames[] = {"surface", "image"};
  std::string text;
  std::map<std::string, std::size_t> numbers;
  std::size_t done = 0;
  for (std::size_t mark = svg.find_first_of("\"#"); mark != std::string::npos; mark = svg.find_first_of("\"#", mark + 1)) {
    for (const std::string_view name : kNames) {
      const std::size_t begin = mark + 1 + name.size(), end = std::min(svg.find_first_not_of("0123456789", begin), svg.size());
      if (svg.compare(mark + 1, name.size(), name) != 0 || begin >= end) continue;
      const std::size_t number = numbers.try_emplace(svg.substr(mark + 1, end - mark - 1), numbers.size() + 1).first->second;
      text.append(svg, done, begin - done).append(std::to_string(number));
      done = end;
    }
  }
  return text.append(svg, done, std::string::npos);
}

}  // namespace

struct Picture::State {
  Surface recorded;  // all drawing commands, replayed at any scale
  Context context;
  std::vector<PlacedText> texts;

  cairo_t* to() const { return context.get(); }
};

bool can_draw() { return writes_png(); }

TextExtent extent_of(std::string_view text, const TextStyle& style) {
  return {set_line(text, style).width, line_height(style.size)};
}

Picture::Picture(double width, double height, Colour ground)
    : width_(std::ceil(width)), height_(std::ceil(height)), state_(std::make_unique<State>()) {
  const cairo_rectangle_t extents = {0, 0, width_, height_};
  state_->recorded.reset(cairo_recording_surface_create(CAIRO_CONTENT_COLOR_ALPHA, &extents));
  state_->context.reset(cairo_create(state_->recorded.get()));
  check(cairo_status(state_->to()));
  cairo_set_line_join(state_->to(), CAIRO_LINE_JOIN_ROUND);
  cairo_set_line_cap(state_->to(), CAIRO_LINE_CAP_ROUND);
  fill({0, 0, width_, height_}, ground);
}

Picture::Picture(Picture&&) noexcept = default;
Picture::~Picture() = default;

const std::vector<Picture::PlacedText>& Picture::texts() const { return state_->texts; }

void Picture::fill(const Area& area, Colour colour, double opacity) {
  set_colour(state_->to(), colour, opacity);
  cairo_rectangle(state_->to(), area.left, area.top, area.width, area.height);
  cairo_fill(state_->to());
}

void Picture::frame(const Area& area, Colour colour, double thickness) {
  set_colour(state_->to(), colour);
  cairo_set_line_width(state_->to(), thickness);
  cairo_rectangle(state_->to(), area.left, area.top, area.width, area.height);
  cairo_stroke(state_->to());
}

void Picture::line(Point from, Point to, const LineStyle& style) {
  const std::array points = {from, to};
  line(points, style);
}

void Picture::line(std::span<const Point> points, const LineStyle& style) {
  cairo_t* const to = state_->to();
  cairo_save(to);
  if (style.within != nullptr) {
    cairo_rectangle(to, style.within->left, style.within->top, style.within->width, style.within->height);
    cairo_clip(to);
  }
  constexpr double kDash[] = {4, 4};
  if (style.dashed) cairo_set_dash(to, kDash, 2, 0);
  set_colour(to, style.colour, style.opacity);
  cairo_set_line_width(to, style.thickness);
  bool begins = true;
  for (const Point& point : points) {
    if (!std::isfinite(point.x) || !std::isfinite(point.y)) {
      begins = true;
    } else {
      if (std::exchange(begins, false)) cairo_move_to(to, point.x, point.y);
      cairo_line_to(to, point.x, point.y);  // a point between two gaps is a dot
    }
  }
  cairo_stroke(to);
  cairo_restore(to);
}

void Picture::dots(std::span<const Point> points, double radius, const LineStyle& style) {
  cairo_t* const to = state_->to();
  set_colour(to, style.colour, style.opacity);
  for (const Point& point : points) {
    if (!std::isfinite(point.x) || !std::isfinite(point.y)) continue;
    const Area* within = style.within;
    constexpr double kEdge = 0.5;  // a point on the edge is inside
    if (within != nullptr && (point.x < within->left - kEdge || point.x > within->right() + kEdge)) continue;
    if (within != nullptr && (point.y < within->top - kEdge || point.y > within->bottom() + kEdge)) continue;
    cairo_new_sub_path(to);
    cairo_arc(to, point.x, point.y, radius, 0, 2 * M_PI);
    cairo_fill(to);
  }
}

void Picture::image(const Area& area, const ImageView& image) {
  if (image.shape.height <= 0 || image.shape.width <= 0) return;
  cairo_t* const to = state_->to();
  const Surface pixels = pixels_of(image);
  cairo_save(to);
  cairo_translate(to, area.left, area.top);
  cairo_scale(to, area.width / image.shape.width, area.height / image.shape.height);
  cairo_set_source_surface(to, pixels.get(), 0, 0);
  const bool shrinks = area.width < image.shape.width / 2.0;  // at the usual scale of 2
  cairo_pattern_set_filter(cairo_get_source(to), shrinks ? CAIRO_FILTER_GOOD : CAIRO_FILTER_NEAREST);
  cairo_rectangle(to, 0, 0, image.shape.width, image.shape.height);
  cairo_fill(to);
  cairo_restore(to);
}

void Picture::text(Point at, std::string_view text, const TextStyle& style) {
  if (text.empty()) return;
  cairo_t* const to = state_->to();
  const TextLine line = set_line(text, style);
  // Lines of the same size share one baseline, whatever fonts their letters use.
  const double down = 0.95 * style.size;
  const double left = style.align == Align::left ? 0 : style.align == Align::centre ? -line.width / 2 : -line.width;
  cairo_save(to);
  cairo_translate(to, at.x, at.y);
  if (style.upward) cairo_rotate(to, -M_PI / 2);
  cairo_translate(to, left, down);
  set_colour(to, style.colour);
  for (const TextRun& run : line.runs) {
    cairo_set_font_face(to, run.font);
    cairo_set_font_size(to, style.size);
    cairo_set_font_options(to, font_options());
    cairo_show_glyphs(to, run.glyphs.data(), static_cast<int>(run.glyphs.size()));
  }
  cairo_restore(to);
  Area ink = line.ink;
  ink.left += left;
  ink.top += down;
  const Area placed = style.upward ? Area{at.x + ink.top, at.y - ink.right(), ink.height, ink.width}
                                   : Area{at.x + ink.left, at.y + ink.top, ink.width, ink.height};
  state_->texts.push_back({line.text, placed});
}

Raster Picture::raster(double scale) const {
  check(cairo_status(state_->to()));  // reports errors of all drawing
  Raster made{static_cast<int>(std::lround(height_ * scale)), static_cast<int>(std::lround(width_ * scale)), {}};
  const Surface surface(cairo_image_surface_create(CAIRO_FORMAT_RGB24, made.width, made.height));
  check(cairo_surface_status(surface.get()));
  {
    const Context to(cairo_create(surface.get()));
    cairo_scale(to.get(), scale, scale);
    cairo_set_source_surface(to.get(), state_->recorded.get(), 0, 0);
    cairo_paint(to.get());
    check(cairo_status(to.get()));
  }
  cairo_surface_flush(surface.get());
  made.pixels.reserve(std::size_t{3} * static_cast<std::size_t>(made.height) * static_cast<std::size_t>(made.width));
  const unsigned char* row = cairo_image_surface_get_data(surface.get());
  for (int y = 0; y < made.height; ++y, row += cairo_image_surface_get_stride(surface.get())) {
    const auto* from = reinterpret_cast<const std::uint32_t*>(row);
    for (int x = 0; x < made.width; ++x) {
      for (const int shift : {16, 8, 0}) made.pixels.push_back(static_cast<std::uint8_t>(from[x] >> shift));
    }
  }
  return made;
}

std::string Picture::png(double scale) const {
  const Raster drawn = raster(scale);
  return png_bytes({drawn.pixels.data(), {drawn.height, drawn.width, 3}}, nullptr, PngEffort::quick);
}

std::string Picture::svg() const {
  check(cairo_status(state_->to()));
  cairo_surface_t* const recorded = state_->recorded.get();
  const unsigned references = cairo_surface_get_reference_count(recorded);
  std::string text;
  {
    const Surface surface(cairo_svg_surface_create_for_stream(append, &text, width_, height_));
    cairo_svg_surface_set_document_unit(surface.get(), CAIRO_SVG_UNIT_PX);
    {
      const Context to(cairo_create(surface.get()));
      cairo_set_source_surface(to.get(), recorded, 0, 0);
      cairo_paint(to.get());
      check(cairo_status(to.get()));
    }
    cairo_surface_finish(surface.get());
    check(cairo_surface_status(surface.get()));
  }
  // Cairo 1.16 never releases anything painted onto an SVG surface: it would leak.
  while (cairo_surface_get_reference_count(recorded) > references) cairo_surface_destroy(recorded);
  return with_own_numbers(text);
}

}  // namespace millrace::drawing

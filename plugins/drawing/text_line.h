// Letters of a line of text, where they stand.
#pragma once

#include <cairo.h>

#include <string>
#include <string_view>
#include <vector>

#include "picture.h"

namespace millrace::drawing {

// Letters of one font, from the left end of the line's baseline.
struct TextRun {
  cairo_font_face_t* font = nullptr;  // lives as long as the program
  std::vector<cairo_glyph_t> glyphs;
};

struct TextLine {
  std::string text;  // what is written: without what does not fit
  std::vector<TextRun> runs;
  double width = 0;
  Area ink;  // that the letters cover, from the same place
};

// The fonts, sizes and places of all letters; the first installed font that has a letter draws it, DejaVu Sans before others.
// Writing from right to left is turned, and Arabic letters joined. Throws Error(run) where no font is installed.
TextLine set_line(std::string_view text, const TextStyle& style);

const cairo_font_options_t* font_options();  // letters stand where they are measured, at any scale

}  // namespace millrace::drawing

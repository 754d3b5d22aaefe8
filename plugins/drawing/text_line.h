// Positioned letters of a line of text.
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
  std::string text;  // the text drawn: without the part that does not fit
  std::vector<TextRun> runs;
  double width = 0;
  Area ink;  // area of the letters, from the same origin
};

// The fonts, sizes and places of all letters; the first installed font that has a letter draws it, DejaVu Sans before others.
// Reorders right-to-left text and joins Arabic letters. Throws Error(run) if no font is installed.
TextLine set_line(std::string_view text, const TextStyle& style);

const cairo_font_options_t* font_options();  // letters keep their measured places at any scale

}  // namespace millrace::drawing

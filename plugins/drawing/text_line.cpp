// Does not use Pango, which ends the process if memory or a thread is refused (GLib): a picture must not end a run.
#include "text_line.h"

#include <cairo-ft.h>
#include <fribidi.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <memory>
#include <new>
#include <utility>

#include "millrace/error.h"
#include "millrace/util/text.h"
#include "release.h"

namespace millrace::drawing {
namespace {

using Pattern = std::unique_ptr<FcPattern, Release<FcPatternDestroy>>;
using FontSet = std::unique_ptr<FcFontSet, Release<FcFontSetDestroy>>;
using FontFace = std::unique_ptr<cairo_font_face_t, Release<cairo_font_face_destroy>>;
using ScaledFont = std::unique_ptr<cairo_scaled_font_t, Release<cairo_scaled_font_destroy>>;

// All scalable fonts, most preferred first. Immutable, so that threads share them.
class Fonts {
 public:
  explicit Fonts(bool bold) {
    const Pattern wanted(FcPatternCreate());
    if (!wanted) throw std::bad_alloc();
    for (const char* family : {"DejaVu Sans", "sans-serif"}) {
      FcPatternAddString(wanted.get(), FC_FAMILY, reinterpret_cast<const FcChar8*>(family));
    }
    FcPatternAddInteger(wanted.get(), FC_WEIGHT, bold ? FC_WEIGHT_BOLD : FC_WEIGHT_REGULAR);
    FcPatternAddBool(wanted.get(), FC_OUTLINE, FcTrue);
    FcConfigSubstitute(nullptr, wanted.get(), FcMatchPattern);
    FcDefaultSubstitute(wanted.get());
    FcResult result = FcResultMatch;
    sorted_.reset(FcFontSort(nullptr, wanted.get(), FcTrue, nullptr, &result));
    for (int i = 0; sorted_ && i < sorted_->nfont; ++i) add(wanted.get(), sorted_->fonts[i]);
    if (fonts_.empty()) {
      fail(ErrorKind::run, "cannot write text into a picture: no font is installed (Debian: fonts-dejavu-core)");
    }
  }

  // If no font has the letter, the first one: it draws a box.
  std::size_t font_for(FcChar32 letter) const {
    const auto has = [letter](const Font& font) { return FcCharSetHasChar(font.letters, letter) == FcTrue; };
    const auto found = std::find_if(fonts_.begin(), fonts_.end(), has);
    return found == fonts_.end() ? 0 : static_cast<std::size_t>(found - fonts_.begin());
  }

  cairo_font_face_t* face(std::size_t index) const { return fonts_[index].face.get(); }

 private:
  struct Font {
    FcCharSet* letters = nullptr;
    FontFace face;
  };

  void add(FcPattern* wanted, FcPattern* pattern) {
    FcBool is_outline = FcFalse, has_colours = FcFalse;
    FcCharSet* letters = nullptr;
    FcPatternGetBool(pattern, FC_OUTLINE, 0, &is_outline);
    FcPatternGetBool(pattern, FC_COLOR, 0, &has_colours);
    if (is_outline != FcTrue || has_colours == FcTrue) return;
    if (FcPatternGetCharSet(pattern, FC_CHARSET, 0, &letters) != FcResultMatch) return;
    const Pattern prepared(FcFontRenderPrepare(nullptr, wanted, pattern));
    if (!prepared) throw std::bad_alloc();
    FontFace face(cairo_ft_font_face_create_for_pattern(prepared.get()));
    if (cairo_font_face_status(face.get()) != CAIRO_STATUS_SUCCESS) throw std::bad_alloc();
    fonts_.push_back({letters, std::move(face)});
  }

  FontSet sorted_;  // patterns refer to its letters
  std::vector<Font> fonts_;
};

// fontconfig crashes if it gets no memory, so it is called only if there is plenty.
void require_memory_for_fonts() {
  constexpr std::size_t kPlenty = std::size_t{16} << 20;
  const std::unique_ptr<void, Release<std::free>> plenty(std::malloc(kPlenty));
  if (!plenty) throw std::bad_alloc();
}

const Fonts& fonts(bool bold) {
  static const std::array<Fonts, 2> both = [] {
    require_memory_for_fonts();
    return std::array{Fonts(false), Fonts(true)};
  }();
  return both[bold ? 1 : 0];
}

// In visual order.
std::vector<FriBidiChar> visual_order(const std::string& text) {
  std::vector<FriBidiChar> logical(text.size() + 1), visual(text.size() + 1);
  const FriBidiStrIndex length =
      fribidi_charset_to_unicode(FRIBIDI_CHAR_SET_UTF8, text.data(), static_cast<FriBidiStrIndex>(text.size()), logical.data());
  FriBidiParType direction = FRIBIDI_PAR_LTR;
  const bool is_turned = fribidi_log2vis(logical.data(), length, &direction, visual.data(), nullptr, nullptr, nullptr) != 0;
  std::vector<FriBidiChar>& found = is_turned ? visual : logical;
  found.resize(static_cast<std::size_t>(length));
  std::erase(found, FriBidiChar{FRIBIDI_CHAR_FILL});  // follows letters that were joined into one
  return found;
}

ScaledFont scaled(cairo_font_face_t* face, double size) {
  cairo_matrix_t to_size, identity;
  cairo_matrix_init_scale(&to_size, size, size);
  cairo_matrix_init_identity(&identity);
  return ScaledFont(cairo_scaled_font_create(face, &to_size, &identity, font_options()));
}

void append_glyphs(TextRun& run, std::span<const FriBidiChar> letters, double size, double& x) {
  const ScaledFont font = scaled(run.font, size);
  const std::size_t before = run.glyphs.size();
  const FT_Face face = cairo_ft_scaled_font_lock_face(font.get());
  for (const FriBidiChar letter : letters) {
    run.glyphs.push_back({face != nullptr ? FT_Get_Char_Index(face, letter) : 0, 0, 0});
  }
  if (face != nullptr) cairo_ft_scaled_font_unlock_face(font.get());
  for (std::size_t i = before; i < run.glyphs.size(); ++i) {
    cairo_text_extents_t extents;
    cairo_scaled_font_glyph_extents(font.get(), &run.glyphs[i], 1, &extents);
    run.glyphs[i].x = x;
    x += extents.x_advance;
  }
}

void add_ink(Area& ink, const TextRun& run, double size) {
  const ScaledFont font = scaled(run.font, size);
  cairo_text_extents_t extents;
  cairo_scaled_font_glyph_extents(font.get(), run.glyphs.data(), static_cast<int>(run.glyphs.size()), &extents);
  if (extents.width <= 0) return;
  const double left = run.glyphs.front().x + extents.x_bearing, right = left + extents.width;
  const double top = extents.y_bearing, bottom = top + extents.height;
  if (ink.width == 0) {
    ink = {left, top, right - left, bottom - top};
    return;
  }
  const double old_right = ink.right(), old_bottom = ink.bottom();
  ink.left = std::min(ink.left, left);
  ink.top = std::min(ink.top, top);
  ink.width = std::max(old_right, right) - ink.left;
  ink.height = std::max(old_bottom, bottom) - ink.top;
}

TextLine set_whole(const std::string& text, const TextStyle& style) {
  TextLine line{text, {}, 0, {}};
  const Fonts& known = fonts(style.bold);
  const std::vector<FriBidiChar> letters = visual_order(text);
  for (std::size_t begin = 0, end = 0; begin < letters.size(); begin = end) {
    const std::size_t font = known.font_for(letters[begin]);
    while (end < letters.size() && known.font_for(letters[end]) == font) ++end;
    line.runs.push_back({known.face(font), {}});
    append_glyphs(line.runs.back(), std::span(letters).subspan(begin, end - begin), style.size, line.width);
    add_ink(line.ink, line.runs.back(), style.size);
  }
  return line;
}

// The first bytes of a text, without a partial character.
std::string beginning(const std::string& text, std::size_t bytes) {
  while (bytes > 0 && (static_cast<unsigned char>(text[bytes]) & 0xC0) == 0x80) --bytes;
  return text.substr(0, bytes);
}

}  // namespace

const cairo_font_options_t* font_options() {
  thread_local const std::unique_ptr<cairo_font_options_t, Release<cairo_font_options_destroy>> options = [] {
    std::unique_ptr<cairo_font_options_t, Release<cairo_font_options_destroy>> made(cairo_font_options_create());
    cairo_font_options_set_hint_metrics(made.get(), CAIRO_HINT_METRICS_OFF);
    cairo_font_options_set_hint_style(made.get(), CAIRO_HINT_STYLE_NONE);
    cairo_font_options_set_antialias(made.get(), CAIRO_ANTIALIAS_GRAY);
    return made;
  }();
  return options.get();
}

void load_fonts() {
  try {
    fonts(false);
  } catch (const Error&) {
    // No font is installed; drawing a text reports it.
  }
}

TextLine set_line(std::string_view text, const TextStyle& style) {
  const std::string written = line_text(utf8_text(text));
  TextLine line = set_whole(written, style);
  if (style.most <= 0 || line.width <= style.most) return line;
  std::size_t fits = 0, too_many = written.size();  // bytes that fit before the dots
  while (too_many - fits > 1) {
    const std::size_t bytes = (fits + too_many) / 2;
    (set_whole(beginning(written, bytes) + "…", style).width <= style.most ? fits : too_many) = bytes;
  }
  return set_whole(beginning(written, fits) + "…", style);
}

}  // namespace millrace::drawing

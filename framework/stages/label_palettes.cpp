#include "stages/label_palettes.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "millrace/util/text.h"

namespace millrace {

namespace {

using Bytes = std::span<const std::uint8_t>;

bool is(Bytes bytes, std::string_view text) {
  return std::ranges::equal(bytes, text, [](std::uint8_t a, char b) { return a == static_cast<std::uint8_t>(b); });
}

// The colours of a PNG's palette, three bytes each; empty: it has none. The file may hold anything.
Bytes palette_of(Bytes png) {
  constexpr std::size_t kSignature = 8, kFrame = 12, kColourType = 25, kPalette = 3;
  if (png.size() <= kColourType || !is(png.first(kSignature), "\x89PNG\r\n\x1a\n") || png[kColourType] != kPalette) return {};
  png = png.subspan(kSignature);
  while (png.size() >= kFrame) {  // length, type, data, checksum
    std::size_t length = 0;
    for (const std::uint8_t byte : png.first(4)) length = length << 8U | byte;
    const Bytes type = png.subspan(4, 4);
    if (length > png.size() - kFrame || is(type, "IDAT")) return {};
    if (is(type, "PLTE")) return png.subspan(8, length);
    png = png.subspan(kFrame + length);
  }
  return {};
}

}  // namespace

void LabelPalettes::add(Bytes file, ImageView labels, const std::string& place) {
  const Bytes palette = palette_of(file);
  if (palette.empty() || !difference_.empty()) return;
  std::array<bool, 256> has{};
  for (std::size_t pixel = 0; pixel < labels.shape.bytes(); ++pixel) has[labels.data[pixel]] = true;
  for (std::size_t value = 0; value < has.size() && 3 * value + 2 < palette.size(); ++value) {
    if (!has[value]) continue;
    const Bytes rgb = palette.subspan(3 * value, 3);
    const Seen here{fmt::format("#{:02x}{:02x}{:02x}", rgb[0], rgb[1], rgb[2]), line_text(place)};
    if (!seen_[value]) seen_[value] = here;
    const Seen& before = *seen_[value];
    if (before.colour == here.colour) continue;
    difference_ =
        fmt::format("value {} is {} in '{}' and {} in '{}'", value, before.colour, before.place, here.colour, here.place);
    return;
  }
}

}  // namespace millrace

#include "stages/label_palettes.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "millrace/util/label_values.h"
#include "millrace/util/text.h"

namespace millrace {

namespace {

using Bytes = std::span<const std::uint8_t>;

bool is(Bytes bytes, std::string_view text) {
  return std::ranges::equal(bytes, text, [](std::uint8_t a, char b) { return a == static_cast<std::uint8_t>(b); });
}

constexpr std::size_t kSignature = 8, kColourType = 25;
constexpr std::uint8_t kGrey = 0, kPalette = 3;

std::optional<std::uint8_t> colour_type(Bytes png) {
  if (png.size() <= kColourType || !is(png.first(kSignature), "\x89PNG\r\n\x1a\n")) return std::nullopt;
  return png[kColourType];
}

// The colours of a PNG's palette, three bytes each; empty if it has none. The file is untrusted.
Bytes palette_of(Bytes png) {
  constexpr std::size_t kFrame = 12;
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
  const auto type = colour_type(file);
  const bool is_grey = type == kGrey;
  if (!is_grey && (type != kPalette || reads_palettes_by_colour(*target_, colours_.size()))) {
    has_colours_ = has_colours_ || type.has_value();
    return;
  }
  const Bytes palette = is_grey ? Bytes() : palette_of(file);
  std::array<bool, 256> has{};
  for (std::size_t pixel = 0; pixel < labels.shape.bytes(); ++pixel) has[labels.data[pixel]] = true;
  for (std::size_t value = 0; value < has.size(); ++value) {
    if (!has[value] || (!is_grey && 3 * value + 2 >= palette.size())) continue;
    const auto channel = [&](std::size_t c) { return is_grey ? static_cast<std::uint8_t>(value) : palette[3 * value + c]; };
    compare(value, {fmt::format("#{:02x}{:02x}{:02x}", channel(0), channel(1), channel(2)), line_text(place)}, is_grey);
  }
}

void LabelPalettes::compare(std::size_t value, const Seen& here, bool is_grey) {
  const auto colour = std::ranges::find(colours_, here.colour);
  const std::uint8_t own = target_->classes[value];
  const bool is_own = own < colours_.size() && colours_[own] == here.colour;
  std::string& text = is_grey && own != target_->ignored ? grey_ : contradiction_;
  if (colour != colours_.end() && colours_.size() <= classes_.size() && !is_own && text.empty()) {
    text = fmt::format("value {} is {} in '{}', which is the colour of class '{}'", value, here.colour, here.place,
                       line_text(classes_[static_cast<std::size_t>(colour - colours_.begin())]));
  }
  if (is_grey) return;
  if (!seen_[value]) seen_[value] = here;
  const Seen& before = *seen_[value];
  if (before.colour == here.colour || !difference_.empty()) return;
  difference_ = fmt::format("value {} is {} in '{}' and {} in '{}'", value, before.colour, before.place, here.colour, here.place);
}

}  // namespace millrace

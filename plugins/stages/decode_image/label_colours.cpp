#include "label_colours.h"

#include <algorithm>

#include "millrace/util/colour.h"
#include "millrace/util/label_values.h"

namespace millrace {

namespace {

std::optional<std::uint8_t> value_of_class(const TargetSpec& spec, std::size_t label) {
  const auto at = std::ranges::find(spec.classes, label);
  if (at == spec.classes.end()) return std::nullopt;
  return static_cast<std::uint8_t>(at - spec.classes.begin());
}

}  // namespace

std::uint8_t LabelColours::value_of(std::uint32_t colour) const {
  const auto at = std::ranges::lower_bound(values, colour, {}, &std::pair<std::uint32_t, std::uint8_t>::first);
  return at != values.end() && at->first == colour ? at->second : other;
}

std::optional<LabelColours> label_colours(const std::vector<std::string>& colours, const TargetSpec& spec) {
  const auto other = value_of_class(spec, spec.ignored);
  if (colours.empty() || spec.kind != TargetSpec::Kind::classes || !other) return std::nullopt;
  LabelColours found{{}, *other, reads_palettes_by_colour(spec, colours.size())};
  for (std::size_t label = 0; label < colours.size(); ++label) {
    const auto value = value_of_class(spec, label);
    const auto [red, green, blue] = parse_colour(colours[label], "colours");
    if (value) found.values.emplace_back(std::uint32_t{red} << 16U | std::uint32_t{green} << 8U | blue, *value);
  }
  std::ranges::stable_sort(found.values, {}, &std::pair<std::uint32_t, std::uint8_t>::first);
  return found;
}

}  // namespace millrace

// Label images whose classes are colours, in RGB or in a palette.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "millrace/stage.h"

namespace millrace {

struct LabelColours {
  std::vector<std::pair<std::uint32_t, std::uint8_t>> values;  // sorted by colour, 0xrrggbb: the value of its class
  std::uint8_t other = 255;                                    // an ignored value, for all other colours
  bool of_palettes = false;                                    // see reads_palettes_by_colour()

  std::uint8_t value_of(std::uint32_t colour) const;
};

// From the classes' colours, "#rrggbb" by class. Empty if they have none, or if every value is a class.
std::optional<LabelColours> label_colours(const std::vector<std::string>& colours, const TargetSpec& spec);

}  // namespace millrace

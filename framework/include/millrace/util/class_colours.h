#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace millrace {

// Colours of class numbers, and of 255, which marks unknown pixels.
using ClassColours = std::array<std::uint8_t, 3 * 256>;  // R, G, B

inline constexpr std::uint8_t kUnknownClass = 255;

// The colours in `written`, "#rrggbb" for each class; if it is empty, the colour map of the PASCAL VOC challenge (Everingham et
// al., "The PASCAL Visual Object Classes Challenge", 2012 development kit, VOClabelcolormap.m), in which 255 is a light yellow.
// Throws Error(usage) for an invalid colour, or unless there is one for each class.
ClassColours class_colours(const std::vector<std::string>& written, std::size_t classes);

}  // namespace millrace

// Drawn images of ten classes that only shape and texture distinguish.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "millrace/detail/random.h"

namespace millrace {

inline constexpr std::array<std::string_view, 10> kShapeNames = {"checkerboard", "circle", "cross", "dots",    "ring",
                                                                 "spiral",       "square", "star",  "stripes", "triangle"};

// (size, size, 3), R, G, B. The colours of shape and background come from the same distribution, independent of the class, so
// that an image's mean colour carries no information; so do size, position, angle, shading, blur and noise.
std::vector<std::uint8_t> draw_shape(int shape, int size, Draw& draw);

}  // namespace millrace

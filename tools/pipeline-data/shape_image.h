// Drawn images of ten classes that only shape and texture tell apart.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "millrace/detail/random.h"

namespace millrace {

inline constexpr std::array<std::string_view, 10> kShapeNames = {"checkerboard", "circle", "cross", "dots",    "ring",
                                                                 "spiral",       "square", "star",  "stripes", "triangle"};

// (size, size, 3), R, G, B. The shape's colour and the background's are drawn alike and without regard to the class, so that the
// mean colour of an image says nothing about it; so are size, position, angle, shading, blur and noise.
std::vector<std::uint8_t> draw_shape(int shape, int size, Draw& draw);

}  // namespace millrace

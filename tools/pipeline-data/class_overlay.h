// Classes of pixels as colours.
#pragma once

#include <picture.h>

#include <cstddef>
#include <cstdint>
#include <functional>

#include "millrace/sample.h"

namespace millrace {

// As far apart from each other as may be, for any number of them; the same index has the same colour always.
drawing::Colour class_colour(std::size_t index);

// Lays the classes' colours over an image of the same height and width, half transparent; `ignored` stays as it is.
using ClassColour = std::function<drawing::Colour(std::size_t index)>;
void lay_over(const Image& image, const Image& classes, std::uint8_t ignored, const ClassColour& colour_of = class_colour);

}  // namespace millrace

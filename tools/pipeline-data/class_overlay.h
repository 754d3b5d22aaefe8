// Colours for classes of pixels.
#pragma once

#include <picture.h>

#include <cstddef>
#include <cstdint>
#include <functional>

#include "millrace/sample.h"

namespace millrace {

// As distinct as possible for any number of classes; an index always has the same colour.
drawing::Colour class_colour(std::size_t index);

// Blends the classes' colours half transparently over an image of the same height and width; `ignored` stays unchanged.
using ClassColour = std::function<drawing::Colour(std::size_t index)>;
void lay_over(const Image& image, const Image& classes, std::uint8_t ignored, const ClassColour& colour_of = class_colour);

}  // namespace millrace

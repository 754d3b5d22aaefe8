// Checks a few label images before training: a value of no class is never counted, a class whose values occur in no image is
// never learned, and a value with two palette colours means two classes. Otherwise all of these go unnoticed, as with masks of 0
// and 255 and classes 0 and 1.
#pragma once

#include <cstdint>
#include <string>

#include "stages/build.h"

namespace millrace {

// Reads up to `most` stored label images of the graph, spread evenly over its listing. Returns a warning, or "" if there are no
// doubts or no label images. Ignores unreadable images. Throws Error(data) if the graph trains and no pixel of up to 256 images
// belongs to a class.
std::string warning_of_label_values(const GraphBuild& build, std::uint64_t seed, std::uint64_t most = 16);

}  // namespace millrace

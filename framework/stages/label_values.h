// What a few label images hold, looked at before training begins: a value that no class has counts nowhere, a class whose values
// are in no image is never learned, and a value to which palettes give two colours means two classes. All pass in silence
// otherwise, as where masks are 0 and 255 and classes are 0 and 1.
#pragma once

#include <cstdint>
#include <string>

#include "stages/build.h"

namespace millrace {

// Looks at up to `most` label images of the graph, spread evenly over its listing, as they are stored. Returns a warning, or "":
// there is nothing to say, or the source has no label images. Images that cannot be read are left to the run. Throws Error(data)
// where the graph trains and not a pixel of up to 256 of them is of a class.
std::string warning_of_label_values(const GraphBuild& build, std::uint64_t seed, std::uint64_t most = 16);

}  // namespace millrace

// Detects images that the network probably sees differently from what was intended: cropped to a small centre, in validation at
// another size than in training, or changed at random there.
#pragma once

#include <cstdint>
#include <string>

#include "millrace/backend/network.h"
#include "millrace/detail/tensor.h"
#include "stages/build.h"

namespace millrace {

// Warning if the network sees less than half of each image, since larger ones are cropped to their centre; "" if it sees more,
// or sizes vary. `window`: the network's input.
std::string warning_of_window(const GraphBuild& build, const ImageShape& window);

// The same warning for a stage that resizes images to `short_side` and crops `size` from their centre.
std::string warning_of_small_middle(const GraphBuild& build);

// The same warning from the first images of a graph, whatever its stages do, including a plain centre crop. Also "" if the
// visible part is unknown, or targets are images, where crops may be intended.
std::string warning_of_seen_part(const GraphBuild& build, const ImageShape& window, std::uint64_t seed);

// Warning if one network sees different image sizes in training and validation, so that objects differ in size; "" if they are
// similar, vary or are drawn.
std::string warning_of_other_size(const GraphBuild& training, const GraphBuild& other);

// Warning if validation changes images at random as training does, so that metrics differ between passes; "" otherwise, or if
// targets are images, where noise may be the task.
std::string warning_of_random_validation(const GraphBuild& training, const GraphBuild& other);

// Warning if images are so small that a layer of the network halves 1 x 1 maps, so that later layers see mostly padding; else
// "".
std::string warning_of_single_places(const GraphBuild& training, const Network& network);

}  // namespace millrace

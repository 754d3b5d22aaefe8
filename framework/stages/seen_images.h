// Images that a network is shown otherwise than somebody means: cut to a small middle, in validation at another size than in
// training, or changed at random there.
#pragma once

#include <cstdint>
#include <string>

#include "millrace/backend/network.h"
#include "millrace/detail/tensor.h"
#include "stages/build.h"

namespace millrace {

// What to warn of where the network sees less than half of each image, since larger ones are cut to their middle; "": it sees
// more, or their size varies. `window`: the network's input.
std::string warning_of_window(const GraphBuild& build, const ImageShape& window);

// The same of a stage that makes images `short_side` high or wide and cuts `size` out of their middle.
std::string warning_of_small_middle(const GraphBuild& build);

// The same of the first images of a graph, whatever its stages make of them: also where their middle is cut out as it is. "",
// too: what is seen of them is not known, or targets are images, of which pieces may be meant.
std::string warning_of_seen_part(const GraphBuild& build, const ImageShape& window, std::uint64_t seed);

// What to warn of where the same network is shown images of one size in training and of another in validation: things in them
// have another size then. "": they are alike, or sizes vary or are drawn.
std::string warning_of_other_size(const GraphBuild& training, const GraphBuild& other);

// What to warn of where a validation changes images at random as the training does, so that its figures differ from pass to pass;
// "": it does not, or its targets are images, of which noise may be the task.
std::string warning_of_random_validation(const GraphBuild& training, const GraphBuild& other);

// What to warn of where images are so small that a layer of the network halves maps of one place: from there on it looks at
// little but its own padding. "": they are not.
std::string warning_of_single_places(const GraphBuild& training, const Network& network);

}  // namespace millrace

// Samples that are there twice: figures of a validation on images that were trained on say nothing of new ones, and images that
// are all alike teach nothing. Both pass in silence otherwise.
#pragma once

#include <cstdint>
#include <string>

#include "stages/build.h"

namespace millrace {

// What to warn of where `other` has samples of `training`, or more of one listing than this one; "": nothing is known of such.
// Samples of one listing are told apart without a read. Files of equal size are then compared byte by byte: up to 64 of `other`,
// those first whose size is rarest, and a few of a storage that is not this machine's.
std::string warning_of_shared_samples(const GraphBuild& training, const GraphBuild& other);

// What to warn of where up to 16 files, spread evenly over the listing, are one and the same; "": they differ, or sizes are not
// known. Nothing is read unless all of these have one size.
std::string warning_of_equal_images(const GraphBuild& build);

// What to warn of where files of two classes are one and the same, byte for byte. Up to 96 pairs of equal size are compared,
// first those whose size is rarest; "": none are, or sizes are not known.
std::string warning_of_contradictions(const GraphBuild& build);

}  // namespace millrace

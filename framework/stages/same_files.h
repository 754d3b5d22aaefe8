// Detects duplicate samples: metrics on training images do not measure generalisation, and identical images teach nothing. Both
// go unnoticed otherwise.
#pragma once

#include <cstdint>
#include <string>

#include "stages/build.h"

namespace millrace {

// Warning if `other` shares samples with `training`, or selects more of the same listing than `training` does; "" if nothing is
// found. Compares samples of one listing without reading. Otherwise compares files of equal size byte by byte: up to 64 of
// `other`, the rarest sizes first, and a few in remote storage.
std::string warning_of_shared_samples(const GraphBuild& training, const GraphBuild& other);

// Warning if up to 16 files, spread evenly over the listing, are identical; "" if they differ or sizes are unknown. Reads
// nothing unless all have one size.
std::string warning_of_equal_images(const GraphBuild& build);

// Warning if files of two classes are identical. Compares up to 96 pairs of equal size, the rarest sizes first; "" if none are
// identical or sizes are unknown.
std::string warning_of_contradictions(const GraphBuild& build);

}  // namespace millrace

// Detects class names which suggest that labels do not mean what training assumes. Independent of the source.
#pragma once

#include <string>
#include <vector>

#include "stages/build.h"

namespace millrace {

// Warnings: classes that are the same number in two spellings; names that combine other names, which are several labels; names
// mixed with their positions; dates.
std::vector<std::string> doubts_of_names(const std::vector<std::string>& classes);

// doubts_of_names() for a graph whose file does not list the classes, and names that differ only in spelling, with their place.
// REQUIRES: an open source.
std::vector<std::string> warnings_of_names(const GraphBuild& build);

// Warning if images are mirrored and a class or a column of numbers names a direction, such as "turn_left"; else "".
std::string warning_of_mirrors(const GraphBuild& build);

}  // namespace millrace

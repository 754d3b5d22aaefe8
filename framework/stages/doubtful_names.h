// Names of classes that say, taken together, that labels are not what a training takes them for. Whatever the source.
#pragma once

#include <string>
#include <vector>

#include "stages/build.h"

namespace millrace {

// What to warn of: classes that are one number in two ways; names made of other names, which are several labels; names beside
// their positions; dates.
std::vector<std::string> doubts_of_names(const std::vector<std::string>& classes);

// The same of a graph whose file does not name the classes, and names that differ in their writing alone; with its place.
// REQUIRES: an open source.
std::vector<std::string> warnings_of_names(const GraphBuild& build);

// Where images are mirrored, and a class or a column of numbers says where something is, as "turn_left" does; "": there is none.
std::string warning_of_mirrors(const GraphBuild& build);

}  // namespace millrace

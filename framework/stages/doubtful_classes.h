// Classes that are not what somebody means by them: what makes a training meaningless is refused, the rest is told.
#pragma once

#include <string>
#include <vector>

#include "stages/build.h"

namespace millrace {

// Throws Error(data) for a graph that trains by labels where classes are called after the parts of a data set (train, val, test),
// as of a `path` one level too high, and where all images are of one class. A list `classes` in the file says that names are
// meant. `network`: null: there is none.
void require_meant_classes(const GraphBuild& build, const Network* network);

// Throws Error(data) that names a class of `other` which `main` does not train, and for which the network has no output.
void require_learnt_classes(const GraphBuild& other, const GraphBuild& main, const Network* network);

// What may be meant, and rarely is, of a graph that trains: outputs that no class has; classes of which nothing, or one image
// alone, is chosen; classes that are rare; samples that come class by class.
std::vector<std::string> warnings_of_classes(const GraphBuild& training, const Network* network);

// What to warn of where another graph lacks the last classes of `main`, or has some that this one has not; "": both have the
// same. REQUIRES: require_same_classes(other, main).
std::string warning_of_other_classes(const GraphBuild& other, const GraphBuild& main);

}  // namespace millrace

// Classes that are probably a mistake: refuses those that make training meaningless, and warns about the rest.
#pragma once

#include <string>
#include <vector>

#include "stages/build.h"

namespace millrace {

// Throws Error(data) for a graph that trains on labels if classes are named like the parts of a data set (train, val, test), as
// with a `path` one level too high, or if all images have one class. A list `classes` in the file confirms the names. `network`:
// null if there is none.
void require_meant_classes(const GraphBuild& build, const Network* network);

// Throws Error(data) naming a class of `other` that `main` does not train and that has no network output.
void require_learnt_classes(const GraphBuild& other, const GraphBuild& main, const Network* network);

// Probable mistakes in a training graph: outputs without a class; classes with at most one chosen image; rare classes; samples
// sorted by class.
std::vector<std::string> warnings_of_classes(const GraphBuild& training, const Network* network);

// Warning if another graph lacks the last classes of `main`, or has additional ones; else "". REQUIRES:
// require_same_classes(other, main).
std::string warning_of_other_classes(const GraphBuild& other, const GraphBuild& main);

}  // namespace millrace

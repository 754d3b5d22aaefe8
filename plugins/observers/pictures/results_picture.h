// results.png and results.svg: the course of a run.
#pragma once

#include <string>

#include "history.h"

namespace millrace::pictures {

// The loss and the most telling figure of training and of each validation, raw and smoothed; below, the other figures, the
// learning rate and the speed. `state`: what is said of the run at the right, such as "running"; `error`: that ended it, or
// empty. REQUIRES: the history has a figure.
drawing::Picture results_picture(const History& history, const std::string& state, const std::string& error = {});

}  // namespace millrace::pictures

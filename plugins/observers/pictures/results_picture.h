// results.png and results.svg: a run's course.
#pragma once

#include <string>

#include "history.h"

namespace millrace::pictures {

// The loss and the main metric of training and of each validation, raw and smoothed; below, the other metrics, the learning rate
// and the speed. `state`: text at the right, such as "running"; `error`: the one that ended the run, or empty. REQUIRES: the
// history has a metric.
drawing::Picture results_picture(const History& history, const std::string& state, const std::string& error = {});

}  // namespace millrace::pictures

// What a run has told before it was resumed.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>

#include "millrace/observer.h"

namespace millrace {

struct RetoldTo {
  std::function<void(const StepEvent&)> step = {};
  std::function<void(const EpochEvent&)> epoch = {};
  std::function<void(const PassEvent&)> pass = {};
  std::function<void(std::uint64_t step)> resume = {};  // what was told of later steps counts no more
};

// Tells an observer what metrics.jsonl holds of the steps before `first_step`, in its order; what `to` leaves empty is left out.
// The file does not say the main graph's name, EpochEvent::epochs, and the class matrix of a pass; passes without figures are
// left out. Of a step's scalars the learning rate alone is told as one, and others as figures. Files of earlier versions do not
// say which figures are shares or better when higher. A null is a figure that was not finite. Lines that cannot be read, as the
// last one of a killed run, are left out, and what is no regular file tells nothing.
void retell(const std::filesystem::path& metrics, std::uint64_t first_step, const RetoldTo& to);

}  // namespace millrace

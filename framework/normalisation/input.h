// The table `input` of a network: the size of its images, and the mean and deviation that normalise their pixels.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "millrace/params.h"

namespace millrace {

struct InputParams {
  std::int64_t channels = 3, height = 0, width = 0;
  std::vector<double> mean, deviation;  // by channel

  static void describe(ParamSet<InputParams>& set);
};

// By default each channel has mean 0 and deviation 1. `network`: its name, for messages.
InputParams read_input(const Value& table, const std::string& network, Diagnostics& errors);

}  // namespace millrace

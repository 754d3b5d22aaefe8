// Costs of layers compared with the device's limits. Pure.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "millrace/backend/backend.h"
#include "millrace/backend/network.h"

namespace millrace {

// The cost of one pass of one sample. A multiply-add is two operations; bytes are the minimum traffic of a layer: its inputs,
// outputs and weights, once.
struct LayerCost {
  double operations = 0, bytes = 0;            // forward
  double back_operations = 0, back_bytes = 0;  // gradients of the input, if the layer before needs one, and of the weights
  double weight_bytes = 0;                     // part of `bytes` and of `back_bytes`: once for all samples of a pass
};
LayerCost cost_of(const Network& network, const Layer& layer, std::size_t element_bytes);

// A device's measured peaks, per second.
struct Peaks {
  double operations = 0;  // multiplying matrices
  double bytes = 0;       // a = b + s * c, for arrays larger than any cache
};

struct LayerRow {
  std::string name, detail;
  double forward = 0, backward = 0;  // seconds per pass
  double share = 0;                  // fraction of all layers' time
  double operations = 0, bytes = 0;  // per second, forward and backward together
  double roof = 0;                   // the fraction of the limit that the peaks set for these operations and bytes; 0 if unknown
};
// `samples`: per pass. In the order of forward.
std::vector<LayerRow> rows_of(const std::vector<LayerTime>& times, const Network& network, double samples,
                              std::size_t element_bytes, const Peaks& peaks);

// A line for each layer: all in order, or the `most` costliest.
std::string layer_table(std::vector<LayerRow> rows, std::size_t most = 0);
std::string layer_table(const std::vector<LayerTime>& times, std::size_t most = 0);  // without operations and bytes

}  // namespace millrace

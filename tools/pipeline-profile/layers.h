// What layers cost, beside what the device could do. Pure.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "millrace/backend/backend.h"
#include "millrace/backend/network.h"

namespace millrace {

// What one pass of one sample costs. A multiply-add is two operations; bytes are those that a layer has to read and write: its
// inputs, outputs and weights, once.
struct LayerCost {
  double operations = 0, bytes = 0;            // forward
  double back_operations = 0, back_bytes = 0;  // gradients of the input, where the layer before needs one, and of the weights
  double weight_bytes = 0;                     // of `bytes` and of `back_bytes`: once for all samples of a pass
};
LayerCost cost_of(const Network& network, const Layer& layer, std::size_t element_bytes);

// What a device reached, a second.
struct Peaks {
  double operations = 0;  // multiplying matrices
  double bytes = 0;       // a = b + s * c, of arrays that no cache holds
};

struct LayerRow {
  std::string name, detail;
  double forward = 0, backward = 0;  // seconds a pass
  double share = 0;                  // of all layers' time
  double operations = 0, bytes = 0;  // a second, forward and backward together
  double roof = 0;                   // the share of what the peaks allow for these operations and bytes; 0: not known
};
// `samples`: of a pass. In the order of forward.
std::vector<LayerRow> rows_of(const std::vector<LayerTime>& times, const Network& network, double samples,
                              std::size_t element_bytes, const Peaks& peaks);

// A line for each layer: all in their order, or the `most` that cost most.
std::string layer_table(std::vector<LayerRow> rows, std::size_t most = 0);
std::string layer_table(const std::vector<LayerTime>& times, std::size_t most = 0);  // without operations and bytes

}  // namespace millrace

// A trained network in 8-bit integers: batch normalisation is folded into the layer before it, weights are rounded by output
// channel, activations by tensor, all symmetric with zero point 0. millrace/backend/int8.h describes what backends compute.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "millrace/backend/int8.h"
#include "predict/model.h"

namespace millrace {

// A convolution or linear layer that can be computed in int8, with the layers that are computed together with it.
struct Int8Layer {
  int layer = 0;
  int norm = -1;         // batch normalisation folded into it; -1: none
  LayerPort input = 0;   // rounded
  LayerPort output = 0;  // behind the normalisation and a ReLU; rounded, unless it is the network's result
};
// In the network's order. Without transposed convolutions, and without a convolution that ends the network, which runtimes
// compute in float.
std::vector<Int8Layer> int8_layers(const Network& network);

// What has been chosen for a network. Stored in the metadata of its weights, under the key "int8", as JSON:
//
//   {"version": 1, "layers": ["conv1", "fc"], "values": {"": [0.0208, true], "relu1": [0.0183, false]}, "report": {...}}
struct Int8Table {
  static constexpr const char* kKey = "int8";

  std::vector<std::string> layers;                   // in int8, by name
  std::map<std::string, QuantiseAttributes> values;  // by value_name(): inputs and outputs of all layers that could be in int8
  std::string report;                                // JSON: accuracy and sensitivity, for people; may be empty

  std::string text() const;
};
std::string value_name(const Network& network, LayerPort value);  // "conv1", "split1:1"; "": the network's input

// Empty if the metadata has none. Throws Error(data), which names the file, for an invalid text.
std::optional<Int8Table> int8_table_from(const std::map<std::string, std::string>& metadata, const std::string& file);

// The network with "quantise" layers, without folded normalisations and without layers that its result does not need. Throws
// Error(data) if the table does not fit.
std::shared_ptr<const Network> int8_network(const Network& network, const Int8Table& table);
// The same with its weights.
Model in_int8(Model model, const Int8Table& table);

}  // namespace millrace

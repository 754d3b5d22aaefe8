// A layer type's examples as networks for a Replica: used by gradient checks and conformance tests of every layer.
#pragma once

#include <string>

#include "millrace/backend/network.h"
#include "millrace/detail/types.h"

namespace millrace::testkit {

// Classes of the networks below.
inline constexpr std::int32_t kExampleClasses = 5;

// The network's text: an image of three channels, then layers that make the example's inputs, the layer, and a classifier.
// `wide`: begins with a convolution of many channels, for which some backends lay out all maps of a network in blocks of
// channels. REQUIRES: all maps of the example have the same height and width.
std::string example_network(const LayerType& type, const LayerExample& example, bool wide = false);

}  // namespace millrace::testkit

// A layer type's examples as networks for a Replica: what gradient checks and conformance tests of every layer are made from.
#pragma once

#include <string>

#include "millrace/backend/network.h"
#include "millrace/detail/types.h"

namespace millrace::testkit {

// Classes of the networks below.
inline constexpr std::int32_t kExampleClasses = 5;

// The network's text: from an image of three channels come inputs as the example wants them, then the layer, then a classifier.
// `wide`: a convolution over many channels comes first, for which some backends lay out all maps of a network in blocks of
// channels. REQUIRES: all maps of the example have the same height and width.
std::string example_network(const LayerType& type, const LayerExample& example, bool wide = false);

}  // namespace millrace::testkit

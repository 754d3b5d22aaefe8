// Where numbers that are not finite begin.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "prepare/prepared_run.h"

namespace millrace {

// Does the steps after the newest checkpoint of the run in `folder` once more, or those from the first one on where it
// has none, until a loss is not finite. Then looks into the step before and into this one: at its parameters and samples, at the
// output of each layer in the order of forward, and at the gradients of parameters in the order of backward. Layers are computed
// one after the other, each by a network of its own that ends with it, which is slow and takes little memory. Writes nothing into
// the folder. Where all losses are finite, looks for the first step before which a parameter is not. Returns lines that name the
// first place. Throws Error(usage) for a run of several processes, and for a graph that does not train or reports no loss.
std::string explain_numbers(const Pipeline& pipeline, const Registry& registry, RunOptions options, const std::string& folder);

// The part of a network that `layer` needs, with that as its last layer. `parameters`: those of the whole network that are
// parameters of the part, in the part's order.
Network part_of(const Network& whole, int layer, std::vector<int>& parameters);

// What there is to say of a tensor: how far its finite values go, and which are not finite.
struct Spread {
  explicit Spread(std::span<const float> values);
  std::size_t count = 0, wrong = 0;  // values; those that are not finite
  std::size_t first_wrong = 0;       // its index. REQUIRES: wrong > 0
  float smallest = 0, largest = 0;   // of the finite ones

  std::string text() const;  // "-1.5 to 3e+38, 12.5 % of 64 values are not finite"
};

}  // namespace millrace

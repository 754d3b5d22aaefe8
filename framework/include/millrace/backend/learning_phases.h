// When the front of a network stops learning, and what backward then has no work for. Pure.
//
// A parameter may keep its value from some epoch on (OptimizerSpec::learns_until). Its gradient is useless from then on, and so
// is the gradient by its layer's input, once no layer before it learns either. What lies behind still needs the layer's own
// gradient, so that a layer in the middle of those that learn is computed to the end.
//
//   epoch 0          conv1 <- conv2 <- conv3 <- loss
//   epoch 3          conv1    conv2 <- conv3 <- loss      with conv1 until epoch 3
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "millrace/backend/backend.h"
#include "millrace/backend/network.h"

namespace millrace {

// By parameter: the epoch from which on backward has nothing to do for its layer, nor for any layer that leads to it. kToTheEnd
// for all where CompileRequest::reads_all_gradients is set, and for those that stop last when nothing would be left that learns:
// a step without any gradient is none.
std::vector<double> backward_until(const Network& network, const CompileRequest& request);

// The network as training computes it, one phase after the other. Parameters for which backward has nothing to do are not
// trainable in it; all else is equal, indices of layers and parameters too.
//
// Threading: read from any thread.
class LearningPhases {
 public:
  LearningPhases(const Network& network, const CompileRequest& request);

  std::size_t count() const { return phases_.size(); }
  std::size_t at(std::uint64_t epoch) const;  // the phase of a batch of this epoch
  // The reference stays valid as long as this object.
  const Network& network(std::size_t phase) const { return phases_[phase].network; }

 private:
  struct Phase {
    double begin = 0;  // epoch
    Network network;
  };
  std::vector<Phase> phases_;  // by `begin`; the first begins at 0
};

}  // namespace millrace

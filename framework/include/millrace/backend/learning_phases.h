// Computes when the first layers of a network stop learning, and the work that backward can then skip. Pure.
//
// A parameter may stop learning at some epoch (OptimizerSpec::learns_until). Its gradient is then useless, and so is the gradient
// by its layer's input once no layer before it learns either. A stopped layer after one that learns is still computed, since
// gradients pass through it.
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

// By parameter: the epoch from which backward can skip its layer and all layers before it. kToTheEnd for all if
// CompileRequest::reads_all_gradients is set, and for the parameters that stop last if none would be left: a step must have a
// gradient.
std::vector<double> backward_until(const Network& network, const CompileRequest& request);

// The network that training computes in each phase. Parameters that backward skips are not trainable in it; all else is equal,
// including the indices of layers and parameters.
//
// Immutable and thread-safe.
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

// Measurements of a training step: sent by stages that train or infer, summed by `metrics`, and computed by backends.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "millrace/batch.h"
#include "millrace/stage.h"

namespace millrace {

class Loss;

// A loss's sums, in the order of LossInfo::sums, then its class matrix or totals. Empty: not measured.
struct StepSums {
  std::vector<double> values;

  double at(std::size_t index) const { return index < values.size() ? values[index] : 0; }
  double loss() const { return at(0); }  // weighted
  double weight() const { return at(1); }
  void add(const StepSums& others);
};

// A loss's sums for one step on one replica, which can be added over replicas and steps.
class StepResult : public Payload {
 public:
  std::uint64_t epoch = 0;
  std::uint64_t step = 0;
  int replica = 0;
  int replicas = 1;
  std::uint64_t stream_hash = 0;     // of the global batch; only replica 0's is used
  Ref<Event> ready;                  // signals that the device has written the sums below
  std::shared_ptr<const Loss> loss;  // computes metrics from the sums
  double samples = 0;                // with weight
  std::vector<StepSums> sums;        // for each measured piece of the share
  // Losses minimised in addition to `loss`.
  struct Auxiliary {
    std::string name;            // "aux1.fc2"
    std::vector<StepSums> sums;  // as above
  };
  std::vector<Auxiliary> auxiliary;
};

// One step's result over all replicas; steps may be reported out of order.
struct StepServices::StepReport {
  std::string_view graph;
  std::uint64_t epoch = 0;
  std::uint64_t step = 0;
  std::uint64_t stream_hash = 0;
  double samples = 0;                // with weight
  std::shared_ptr<const Loss> loss;  // computes metrics from the sums
  StepSums sums;
  std::map<std::string, StepSums> auxiliary = {};  // of additional losses, by name
};

}  // namespace millrace

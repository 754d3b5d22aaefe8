// The best weights of a run in its replicas, for what is evaluated at its end.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <utility>

#include "run/run_context.h"
#include "weights/best_weights.h"

namespace millrace {

// Has the replicas hold the weights of best.safetensors as long as it lives, and then what they held before. All processes make
// it and end it together, while no graph runs.
class BestExchange {
 public:
  // `best`: what the process that writes files has found; nothing in the others. Where that is nothing, or the file does not hold
  // it, the replicas keep their weights; a file that lacks it is warned of. Throws what another process did to the group.
  BestExchange(const RunContext& run, const std::optional<Best>& best);
  ~BestExchange();
  BestExchange(const BestExchange&) = delete;
  BestExchange& operator=(const BestExchange&) = delete;

  std::uint64_t step() const { return step_; }  // of the weights; 0: nothing was exchanged

 private:
  Weights read(const Best& best) const;
  void share(std::vector<float>& values) const;
  const std::vector<float>& before(std::size_t replica, std::size_t parameter) const;

  const RunContext& run_;
  std::uint64_t step_ = 0;
  Weights before_;                                                                // of the first replica
  std::map<std::pair<std::size_t, std::size_t>, std::vector<float>> statistics_;  // of the others, which differ; by parameter
};

}  // namespace millrace

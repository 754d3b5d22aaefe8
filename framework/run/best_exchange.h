// Lends the best weights to the replicas for evaluations at the end of a run.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <utility>

#include "run/run_context.h"
#include "weights/best_weights.h"

namespace millrace {

// While it lives, the replicas hold the weights of best.safetensors; its destructor restores the previous ones. All processes
// construct and destroy it together, while no graph runs.
class BestExchange {
 public:
  // `best`: on the rank that writes files, the best weights found; empty on the others. If it is empty, the replicas keep their
  // weights; also if the file lacks it, with a warning. Throws the error of another process.
  BestExchange(const RunContext& run, const std::optional<Best>& best);
  ~BestExchange();
  BestExchange(const BestExchange&) = delete;
  BestExchange& operator=(const BestExchange&) = delete;

  std::uint64_t step() const { return step_; }  // at which the weights were best; 0: nothing was exchanged

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

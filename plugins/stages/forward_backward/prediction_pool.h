#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "millrace/backend/backend.h"
#include "millrace/batch.h"

namespace millrace {

// The Predictions that one replica's `forward` sends: a fixed number that circulate. One that is not held any more returns,
// and its strings and memory are used again.
//
// They are the stage's credits: forward keeps a step's token until there are predictions for the next step, so take() always
// finds some and no worker waits. Thread-safe.
class PredictionPool : public std::enable_shared_from_this<PredictionPool> {
 public:
  static constexpr std::size_t kCirculating = 3;  // one is computed, one waits, one is written

  // `values`: of each, without memory. `samples`: how many each has room for; take() makes room for more.
  PredictionPool(Device& device, std::vector<Predictions::Values> values, std::uint32_t samples);
  ~PredictionPool();

  // With `samples` in use. REQUIRES: the token of the call before went through let_go() and is gone.
  Ref<Predictions> take(std::uint32_t samples);
  void let_go(Ref<Payload> token);  // when predictions are at home

  // Submits what fills the values, after infer() of these samples, which begin at slot `begin` of the batch. REQUIRES:
  // `predictions` are this pool's; they stay until the event is complete.
  static Ref<Event> read(Replica& replica, const Predictions& predictions, const Ref<Batch>& batch, std::uint32_t begin);
  // The bytes of all of them, at most.
  static std::size_t bytes(const std::vector<Predictions::Values>& values, std::uint32_t samples);

 private:
  class Pooled;
  void come_home(Pooled* predictions) noexcept;

  Device& device_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<Pooled>> at_home_;
  Ref<Payload> token_;  // kept, as none was at home
};

}  // namespace millrace

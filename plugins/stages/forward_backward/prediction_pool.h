#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "millrace/backend/backend.h"
#include "millrace/batch.h"

namespace millrace {

// The Predictions that one replica's `forward` sends: a fixed number that circulate. When the last reference is gone, one
// returns, and its strings and memory are reused.
//
// They act as credits: forward keeps a step's token until predictions are free for the next step, so take() never fails or waits.
// Thread-safe.
class PredictionPool : public std::enable_shared_from_this<PredictionPool> {
 public:
  static constexpr std::size_t kCirculating = 3;  // one being computed, one waiting, one being written

  // `values`: of each, without memory. `samples`: initial capacity of each; take() extends it.
  PredictionPool(Device& device, std::vector<Predictions::Values> values, std::uint32_t samples);
  ~PredictionPool();

  // Sets `samples` in use. REQUIRES: the previous call's token was passed to let_go() and is gone.
  Ref<Predictions> take(std::uint32_t samples);
  void let_go(Ref<Payload> token);  // once predictions are free

  // Submits the copy of the values after infer() of these samples, which begin at slot `begin` of the batch. REQUIRES:
  // `predictions` are from this pool and stay until the event is complete.
  static Ref<Event> read(Replica& replica, const Predictions& predictions, const Ref<Batch>& batch, std::uint32_t begin);
  // Maximum size of all of them, in bytes.
  static std::size_t bytes(const std::vector<Predictions::Values>& values, std::uint32_t samples);

 private:
  class Pooled;
  void come_home(Pooled* predictions) noexcept;

  Device& device_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<Pooled>> at_home_;
  Ref<Payload> token_;  // kept while none was free
};

}  // namespace millrace

#include "prediction_pool.h"

#include <cassert>
#include <utility>

#include "millrace/backend/backend.h"

namespace millrace {
namespace {

constexpr std::size_t kTextBytes = 256;  // approximate size of a sample's strings

std::size_t elements(const Predictions::Values& values) { return static_cast<std::size_t>(values.shape.elements()); }

std::size_t floats_of_a_sample(const std::vector<Predictions::Values>& values) {
  std::size_t sum = 0;
  for (const Predictions::Values& value : values) sum += elements(value);
  return sum;
}

}  // namespace

class PredictionPool::Pooled final : public Predictions {
 public:
  void make_room(Device& device, std::size_t room) {
    if (room <= samples.size()) return;
    samples.resize(room);
    memory_ = device.host_buffer(room * floats_of_a_sample(outputs) * sizeof(float));
    auto* next = reinterpret_cast<const float*>(memory_.get());
    for (Values& values : outputs) {
      values.values = next;
      next += room * elements(values);
    }
  }

  std::shared_ptr<PredictionPool> home;  // set while in use

 private:
  void recycle() noexcept override {
    ready = nullptr;
    batch = nullptr;
    const std::shared_ptr<PredictionPool> pool = std::move(home);
    pool->come_home(this);
  }

  std::shared_ptr<std::uint8_t[]> memory_;
};

PredictionPool::PredictionPool(Device& device, std::vector<Predictions::Values> values, std::uint32_t samples) : device_(device) {
  for (std::size_t i = 0; i < kCirculating; ++i) {
    auto made = std::make_unique<Pooled>();
    made->outputs = values;
    made->make_room(device, samples);
    at_home_.push_back(std::move(made));
  }
}

PredictionPool::~PredictionPool() = default;

Ref<Predictions> PredictionPool::take(std::uint32_t samples) {
  Pooled* taken = nullptr;
  {
    const std::lock_guard lock(mutex_);
    assert(!at_home_.empty());
    taken = at_home_.back().release();
    at_home_.pop_back();
  }
  taken->home = shared_from_this();
  const Ref<Predictions> predictions(taken);
  taken->make_room(device_, samples);
  taken->count = samples;
  return predictions;
}

// A discarded token is released with the argument, after the lock.
void PredictionPool::let_go(Ref<Payload> token) {
  const std::lock_guard lock(mutex_);
  if (at_home_.empty()) token_ = std::move(token);
}

void PredictionPool::come_home(Pooled* predictions) noexcept {
  Ref<Payload> token;  // released after the lock: the next step may begin with it
  const std::lock_guard lock(mutex_);
  at_home_.emplace_back(predictions);
  token = std::move(token_);
}

Ref<Event> PredictionPool::read(Replica& replica, const Predictions& predictions, const Ref<Batch>& batch, std::uint32_t begin) {
  std::vector<OutputCopy> copies;
  std::vector<GradientCopy> gradients;
  for (const Predictions::Values& values : predictions.outputs) {
    auto* const host = const_cast<float*>(values.values);  // the pool's own memory
    if (values.score)
      gradients.push_back({{values.port, *values.score}, host});
    else
      copies.push_back({values.port, host});
  }
  const Ref<Event> read = replica.read_outputs(copies);
  return gradients.empty() ? read : replica.read_gradients(batch, begin, predictions.count, gradients);
}

std::size_t PredictionPool::bytes(const std::vector<Predictions::Values>& values, std::uint32_t samples) {
  return kCirculating * samples * (floats_of_a_sample(values) * sizeof(float) + sizeof(Predictions::Sample) + kTextBytes);
}

}  // namespace millrace

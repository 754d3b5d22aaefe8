// Marks: testkit events that refer to their simulation.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>

#include "runtime/machine.h"
#include "simulation/simulation.h"
#include "testkit/recording_queue.h"

namespace millrace::cuda {

// A point in a queue's work. One in a recording refers to that point of the latest launch, and is complete before the first.
class SimulatedMark : public Event {
 public:
  // callback_stream: the queue's stream to which the checker attributes callbacks.
  SimulatedMark(std::shared_ptr<Simulation> simulation, int callback_stream, Ref<testkit::RecordedEvent> event)
      : simulation_(std::move(simulation)), callback_stream_(callback_stream), event_(std::move(event)) {}

  bool complete() const override;
  void wait() const override;
  void then(Callback done) override;

  Simulation& simulation() const { return *simulation_; }
  Ref<testkit::RecordedEvent> event() const;  // null: not launched yet
  void keep_time();                           // from now on seconds() returns when it completed
  double seconds() const { return *seconds_; }
  void set(Ref<testkit::RecordedEvent> event);

 private:
  const std::shared_ptr<Simulation> simulation_;  // marks may outlive their machine
  const int callback_stream_;
  mutable std::mutex mutex_;
  Ref<testkit::RecordedEvent> event_;
  std::shared_ptr<std::atomic<double>> seconds_ = std::make_shared<std::atomic<double>>(0);
};

}  // namespace millrace::cuda

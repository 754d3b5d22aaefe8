// Transfers sums of losses from the device to the host.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "host_memory.h"
#include "machine.h"

namespace millrace::cuda {

// Complete when the device has finished or failed. The first thread that observes this writes the sums, after those of earlier
// events; if the device has failed nothing is written, and wait() throws.
class SumsEvent : public Event {
 public:
  SumsEvent(Machine& machine, Ref<Mark> copied, std::shared_ptr<HostMemory> from, std::size_t count, StepSums& to,
            Ref<SumsEvent> before)
      : machine_(machine),
        copied_(std::move(copied)),
        from_(std::move(from)),
        count_(count),
        to_(&to),
        before_(std::move(before)) {}

  bool complete() const override;
  void wait() const override;
  void then(Callback done) override;

 private:
  void deliver() const;

  Machine& machine_;
  const Ref<Mark> copied_;
  mutable std::shared_ptr<HostMemory> from_;  // released on delivery
  const std::size_t count_;
  StepSums* const to_;
  mutable Ref<SumsEvent> before_;  // null: delivered, or none
  mutable std::once_flag once_;
};

// Pinned places for sums, reused after delivery, and the pending events.
class SumsReturn {
 public:
  explicit SumsReturn(Machine& machine) : machine_(machine) {}

  // Submits the copy of `device` to the host; the returned event completes when `sums` is valid.
  Ref<Event> submit(Queue& queue, const double* device, std::size_t count, StepSums& sums);
  void deliver();  // REQUIRES: the queue's work is complete

 private:
  std::shared_ptr<HostMemory> free_place(std::size_t bytes);

  Machine& machine_;
  std::vector<std::shared_ptr<HostMemory>> places_;  // free if no event holds it
  std::vector<Ref<SumsEvent>> pending_;
};

}  // namespace millrace::cuda

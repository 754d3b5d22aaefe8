// Sums of losses on their way from the device to the host.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "host_memory.h"
#include "machine.h"

namespace millrace::cuda {

// The first thread that learns of its completion writes the sums, after those of the events before. After a failure of the device
// nothing is written.
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
  mutable std::shared_ptr<HostMemory> from_;  // given up when delivered
  const std::size_t count_;
  StepSums* const to_;
  mutable Ref<SumsEvent> before_;  // null: it was delivered, or there was none
  mutable std::once_flag once_;
};

// Pinned places for sums, used again when delivered, and the events that have not been asked yet.
class SumsReturn {
 public:
  explicit SumsReturn(Machine& machine) : machine_(machine) {}

  // Submits the copy of `device` to the host, and gives the event that says when `sums` holds it.
  Ref<Event> submit(Queue& queue, const double* device, std::size_t count, StepSums& sums);
  void deliver();  // REQUIRES: the queue's work is done

 private:
  std::shared_ptr<HostMemory> free_place(std::size_t bytes);

  Machine& machine_;
  std::vector<std::shared_ptr<HostMemory>> places_;  // free where no event holds it
  std::vector<Ref<SumsEvent>> pending_;
};

}  // namespace millrace::cuda

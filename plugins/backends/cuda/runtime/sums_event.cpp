#include "sums_event.h"

#include <cstring>

namespace millrace::cuda {

bool SumsEvent::complete() const {
  if (!copied_->complete()) return false;
  deliver();
  return true;
}

void SumsEvent::wait() const {
  copied_->wait();
  deliver();
}

void SumsEvent::then(std::function<void()> done) {
  copied_->then([self = Ref<SumsEvent>(this), done = std::move(done)] {
    self->deliver();
    done();
  });
}

void SumsEvent::deliver() const {
  std::call_once(once_, [this] {
    machine_.host_access(from_->data(), sizeof *to_, false);
    std::memcpy(to_, from_->data(), sizeof *to_);
    from_ = nullptr;
  });
}

std::shared_ptr<HostMemory> SumsReturn::free_place() {
  for (const std::shared_ptr<HostMemory>& place : places_) {
    if (place.use_count() == 1) return place;
  }
  return places_.emplace_back(std::make_shared<HostMemory>(machine_, sizeof(StepSums)));
}

Ref<Event> SumsReturn::submit(Queue& queue, const StepSums* device, StepSums& sums) {
  std::erase_if(pending_, [](const Ref<SumsEvent>& event) { return event->complete(); });
  std::shared_ptr<HostMemory> place = free_place();
  queue.copy_out(place->data(), device, sizeof(StepSums));
  return pending_.emplace_back(make_ref<SumsEvent>(machine_, queue.mark(), std::move(place), sums));
}

void SumsReturn::deliver() {
  for (const Ref<SumsEvent>& event : pending_) event->wait();
  pending_.clear();
}

}  // namespace millrace::cuda

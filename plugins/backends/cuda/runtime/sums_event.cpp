#include "sums_event.h"

#include <cstring>
#include <optional>

#include "millrace/error.h"

namespace millrace::cuda {

bool SumsEvent::complete() const {
  if (!copied_->complete()) return false;
  try {
    deliver();
  } catch (const Error&) {  // wait() throws it
  }
  return true;
}

void SumsEvent::wait() const { deliver(); }

void SumsEvent::then(Callback done) {
  copied_->then([self = Ref<SumsEvent>(this), done = std::move(done)](const Error* failure) {
    std::optional<Error> later;  // of the events before: their sums are missing
    try {
      if (failure == nullptr) self->deliver();
    } catch (...) {
      later = current_error();
    }
    done(later ? &*later : failure);
  });
}

void SumsEvent::deliver() const {
  std::call_once(once_, [this] {
    copied_->wait();  // throws if the device has failed: the host memory then does not hold the sums
    if (before_) before_->deliver();
    before_ = nullptr;
    machine_.host_access(from_->data(), count_ * sizeof(double), false);
    to_->values.resize(count_);
    std::memcpy(to_->values.data(), from_->data(), count_ * sizeof(double));
    from_ = nullptr;
  });
}

std::shared_ptr<HostMemory> SumsReturn::free_place(std::size_t bytes) {
  for (const std::shared_ptr<HostMemory>& place : places_) {
    if (place.use_count() == 1 && place->bytes() >= bytes) return place;
  }
  return places_.emplace_back(std::make_shared<HostMemory>(machine_, bytes));
}

Ref<Event> SumsReturn::submit(Queue& queue, const double* device, std::size_t count, StepSums& sums) {
  std::erase_if(pending_, [](const Ref<SumsEvent>& event) { return event->complete(); });
  std::shared_ptr<HostMemory> place = free_place(count * sizeof(double));
  queue.copy_out(place->data(), device, count * sizeof(double));
  Ref<SumsEvent> before = pending_.empty() ? nullptr : pending_.back();
  return pending_.emplace_back(make_ref<SumsEvent>(machine_, queue.mark(), std::move(place), count, sums, std::move(before)));
}

void SumsReturn::deliver() {
  for (const Ref<SumsEvent>& event : pending_) event->wait();
  pending_.clear();
}

}  // namespace millrace::cuda

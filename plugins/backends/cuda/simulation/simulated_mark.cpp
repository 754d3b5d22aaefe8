#include "simulation/simulated_mark.h"

#include <chrono>
#include <utility>

namespace millrace::cuda {

using testkit::RecordedEvent;

Ref<RecordedEvent> SimulatedMark::event() const {
  const std::scoped_lock lock(mutex_);
  return event_;
}

void SimulatedMark::set(Ref<RecordedEvent> event) {
  const std::scoped_lock lock(mutex_);
  event_ = std::move(event);
}

void SimulatedMark::keep_time() {
  event()->then([seconds = seconds_](const Error*) {
    *seconds = std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
  });
}

bool SimulatedMark::complete() const {
  simulation_->refuse_in_recording("Mark::complete");
  const Ref<RecordedEvent> now = event();
  return !now || now->complete();
}

void SimulatedMark::wait() const {
  simulation_->refuse_in_recording("Mark::wait");
  if (simulation_->strikes(Count::host_waits, simulation_->options().leave_out_host_wait)) return;
  if (const Ref<RecordedEvent> now = event()) now->wait();
}

void SimulatedMark::then(Callback done) {
  simulation_->refuse_in_recording("Mark::then");
  const Ref<RecordedEvent> now = event();
  if (simulation_->strikes(Count::callbacks, simulation_->options().call_back_early) || !now) return done(nullptr);
  now->then(
      [simulation = simulation_, stream = callback_stream_, clock = now->clock(), call = std::move(done)](const Error* failure) {
        const CallbackScope scope(simulation->checker(), stream, clock);
        call(failure);
      });
}

}  // namespace millrace::cuda

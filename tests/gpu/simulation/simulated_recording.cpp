// A queue's recordings, and their launches.
#include "millrace/error.h"
#include "simulation/simulated_queue.h"

namespace millrace::cuda {
namespace {

void restore(Simulation& simulation, const Work& work) {
  for (const Touch& touch : work.touches)
    if (touch.arena) simulation.restore(touch.arena);
}
void restore(Simulation& simulation, const SimulatedRecording::SetTime& step) { simulation.restore(step.arena); }
void restore(Simulation&, const Ref<SimulatedMark>&) {}

}  // namespace

void SimulatedQueue::begin_recording() {
  const OneThread alone(*this);
  if (recording_) fail(ErrorKind::device, "{}: a recording has begun already", name_);
  recording_ = std::make_unique<SimulatedRecording>();
  ++recordings_of_this_thread;
}

Ref<Mark> SimulatedQueue::recorded_mark() {
  const OneThread alone(*this);
  if (!recording_) fail(ErrorKind::device, "{}: no recording has begun", name_);
  auto mark = make_ref<SimulatedMark>(simulation_, callback_stream_, Ref<testkit::RecordedEvent>());
  recording_->steps.emplace_back(mark);
  return mark;
}

std::unique_ptr<Recording> SimulatedQueue::end_recording() {
  const OneThread alone(*this);
  if (!recording_) fail(ErrorKind::device, "{}: no recording has begun", name_);
  if (recording_->thread == std::this_thread::get_id()) {
    --recordings_of_this_thread;
  } else {
    simulation_->report("inside a recording", name_ + ".end_recording", "another thread began it");
  }
  return std::move(recording_);
}

// An arena belongs to the plan in force at recording, even if another one was declared since: then that one's contents are gone.
void SimulatedQueue::launch(Recording& recording) {
  const OneThread alone(*this);
  auto* ours = dynamic_cast<SimulatedRecording*>(&recording);
  if (ours == nullptr) fail(ErrorKind::device, "{}: the recording is not of this machine", name_);
  if (recording_) fail(ErrorKind::device, "{}: a recording cannot launch another", name_);
  simulation_->begin_call(machine_, name_ + ".launch");
  for (const auto& step : ours->steps) std::visit([this](const auto& each) { restore(*simulation_, each); }, step);
  for (auto& step : ours->steps) {
    if (const auto* work = std::get_if<Work>(&step)) {
      perform(still_legal(*work));
    } else if (const auto* time = std::get_if<SimulatedRecording::SetTime>(&step)) {
      simulation_->set_time(time->arena, stream_, time->time);
    } else if (simulation_->options().sets_recorded_marks) {
      std::get<Ref<SimulatedMark>>(step)->set(record());
    }
  }
}

// Its memory may have been released since the recording.
Work SimulatedQueue::still_legal(Work work) {
  for (const Touch& touch : work.touches) {
    if (simulation_->allocations().holds(*touch.memory)) continue;
    report_illegal(work, "'" + touch.memory->name() + "' was released after the recording");
    break;
  }
  return work;
}

}  // namespace millrace::cuda

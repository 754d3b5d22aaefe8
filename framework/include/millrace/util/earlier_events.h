// Records of a run from before it was resumed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <vector>

#include "millrace/observer.h"

namespace millrace {

// Where a run resumes. If the batch size has changed, the same progress has another step number: 15 steps of 16 images equal 6
// steps of 40.
struct ResumedAt {
  std::uint64_t recorded = 0;  // the checkpoint's step, as counted in the run's files: RunStart::checkpoint_step
  std::uint64_t today = 0;     // the same progress in steps of today's batches: RunStart::first_step - 1
};

inline ResumedAt resumed_at(const RunStart& start) { return {start.checkpoint_step, start.first_step - 1}; }

// Converts a step in the run's files to today's batches. Empty if it came after the checkpoint, and was discarded.
std::optional<std::uint64_t> step_today(std::uint64_t recorded, const ResumedAt& at);

// Converts the steps in metrics.jsonl to today's batches, over all resumes of the run. Throws nothing: an unreadable file counts
// as one without resumes.
class RecordedSteps {
 public:
  explicit RecordedSteps(const std::filesystem::path& metrics);
  void resume(const ResumedAt& at) { resumes_.push_back({SIZE_MAX, at}); }  // now, after all lines
  // `line`: its number, from 0. Empty if the step was discarded.
  std::optional<std::uint64_t> today(std::size_t line, std::uint64_t step) const;

 private:
  struct Resume {
    std::size_t line;
    ResumedAt at;
  };
  std::vector<Resume> resumes_;
};

struct EventReceivers {
  std::function<void(const StepEvent&)> step = {};
  std::function<void(const EpochEvent&)> epoch = {};
  std::function<void(const PassEvent&)> pass = {};
};

// Replays metrics.jsonl to an observer when the run resumes: the steps that still count, in order, with today's step numbers;
// callbacks that are empty in `to` are skipped. The file lacks the main graph's name, EpochEvent::epochs, and the class matrix of
// a pass; passes without metrics are skipped. Among a step's scalars only the learning rate is sent as a scalar, others as
// metrics. Files of earlier versions do not record which metrics are shares or better when higher. A null is a metric that was
// not finite. Unreadable lines, such as the last one of a killed run, are skipped, as is anything but a regular file.
void send_earlier_events(const std::filesystem::path& metrics, const ResumedAt& at, const EventReceivers& to);

}  // namespace millrace

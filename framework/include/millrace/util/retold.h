// What a run has told before it was resumed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <vector>

#include "millrace/observer.h"

namespace millrace {

// Where a run resumes. The same steps are other numbers where batches have another size since: 15 of 16 images are 6 of 40.
struct ResumedAt {
  std::uint64_t recorded = 0;  // steps of the checkpoint, as the run's files count them: RunStart::checkpoint_step
  std::uint64_t today = 0;     // the same steps, as today's batches count them: RunStart::first_step - 1
};

inline ResumedAt resumed_at(const RunStart& start) { return {start.checkpoint_step, start.first_step - 1}; }

// A step of the run's files, as today's batches count it. Nothing: it came after the checkpoint, and counts no more.
std::optional<std::uint64_t> step_today(std::uint64_t recorded, const ResumedAt& at);

// What the steps of the lines of metrics.jsonl are today, after all that the run was resumed. Throws nothing: a file that cannot
// be read tells of no resume.
class ToldSteps {
 public:
  explicit ToldSteps(const std::filesystem::path& metrics);
  void resume(const ResumedAt& at) { resumes_.push_back({SIZE_MAX, at}); }  // now, behind all lines
  // `line`: its number, from 0. Nothing: it counts no more.
  std::optional<std::uint64_t> today(std::size_t line, std::uint64_t step) const;

 private:
  struct Resume {
    std::size_t line;
    ResumedAt at;
  };
  std::vector<Resume> resumes_;
};

struct RetoldTo {
  std::function<void(const StepEvent&)> step = {};
  std::function<void(const EpochEvent&)> epoch = {};
  std::function<void(const PassEvent&)> pass = {};
};

// Tells an observer what metrics.jsonl holds of the steps that still count when the run resumes, in its order, with their steps
// of today; what `to` leaves empty is left out. The file does not say the main graph's name, EpochEvent::epochs, and the class
// matrix of a pass; passes without figures are left out. Of a step's scalars the learning rate alone is told as one, and others
// as figures. Files of earlier versions do not say which figures are shares or better when higher. A null is a figure that was
// not finite. Lines that cannot be read, as the last one of a killed run, are left out, and what is no regular file tells
// nothing.
void retell(const std::filesystem::path& metrics, const ResumedAt& at, const RetoldTo& to);

}  // namespace millrace

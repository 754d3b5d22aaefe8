// A prepared pipeline as it is run: epochs, validation, files, and an end in good order.
#pragma once

#include <ctime>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/checkpointer.h"
#include "prepare/prepared_run.h"
#include "run/run_result.h"
#include "run/step_barrier.h"
#include "weight_files/weights_writer.h"

namespace millrace {

// Uses up what was prepared, which outlives it.
class Run {
 public:
  // `seconds`: that the run has taken already, with a branch of it that was abandoned.
  explicit Run(PreparedRun& prepared, double seconds = 0) : run_(prepared), seconds_(seconds) {}
  ~Run();
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;

  RunResult go();  // once

  // After go() has thrown: whether the pipeline may be run once more from a checkpoint, as [run] on_nan = "rollback" says, and
  // with which options: a smaller learning rate. REQUIRES, of rollback_options(): may_roll_back().
  bool may_roll_back() const;
  RunOptions rollback_options();

 private:
  RunResult train();
  void make_writers(const std::filesystem::path& folder);
  void make_barriers();
  void watch_gates();
  void save_results(RunResult& result);
  void write_card(const RunResult& result);
  [[noreturn]] void end_with(Error error);
  // What a run that broke off has left, and what to do about numbers that are not finite. Rank 0 says it.
  Error with_checkpoint(const Error& error) const;
  Error with_advice(const Error& error) const;
  std::string command_with(const std::string& command, const char* option, const std::filesystem::path& folder) const;
  std::optional<WrongNumber> wrong_number() const { return run_.audience.log().found().numbers.trouble(); }
  std::string newest_checkpoint() const { return checkpointer_ ? checkpointer_->newest() : std::string(); }
  std::filesystem::path folder() const {
    return run_.pipeline.run.folder.empty() ? std::string() : run_.audience.log().output_folder();
  }

  PreparedRun& run_;
  const double seconds_;
  const std::time_t began_ = std::time(nullptr);
  std::unique_ptr<WeightsWriter> weights_;              // null: there is no network
  std::unique_ptr<Checkpointer> checkpointer_;          // null: the run has no checkpoints
  std::vector<std::unique_ptr<StepBarrier>> barriers_;  // by graph; empty: this process is alone
};

}  // namespace millrace

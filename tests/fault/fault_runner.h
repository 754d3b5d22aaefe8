// Runs that are killed, paused and signalled, and their results, which must not depend on how often they were stopped.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "pipelines/command.h"
#include "pipelines/running_program.h"

namespace millrace::test {

// The results that do not depend on how often a run was stopped: everything except times.
struct LeftByRun {
  std::string weights, best, tensors, state;  // tensors and state: of the newest checkpoint
  Words metrics;                              // lines that were not discarded
  std::set<std::string> files;                // in the run's folder and `checkpoints`, without the checkpoints
};
LeftByRun left_by(const std::filesystem::path& run);
void expect_the_same(const LeftByRun& whole, const LeftByRun& other, const std::string& what);
// The lines of metrics.jsonl without times, and without those that a resumed run repeated.
Words lines_that_count(const std::filesystem::path& metrics);

// The devices and processes of a run.
struct Place {
  std::string name;
  Words options;  // for pipeline-run
};
void PrintTo(const Place& place, std::ostream* out);
const std::vector<Place>& places();  // cpu, two replicas, two processes, the simulated GPU

// Programs that keep the processor busy, two per available core, until the object is destroyed.
class Hogs {
 public:
  Hogs();

 private:
  std::vector<std::unique_ptr<RunningProgram>> programs_;
};

// A number in the environment, or `otherwise`.
std::uint64_t environment_number(const char* name, std::uint64_t otherwise);

// A small run with everything that makes resuming hard: statistics, momentum, averaged and slow weights, dropout, augmentation,
// pieces of batches, validation in the middle of epochs, [plateau], [stop], best weights. 2 epochs of 5 steps, a checkpoint
// every 2. With network.use=plain.toml its layers handle each sample separately.
class RunTest : public testing::Test {
 protected:
  RunTest();
  Words command(const std::string& runs, const Words& set = {}, const Words& options = {}) const;
  Outcome run(const std::string& runs, const Words& set = {}, const Words& options = {}) const;
  // Variables that make fault_files.so watch a folder in folder_, which begins empty. Empty if that library was not built.
  std::optional<Words> fault_environment(const std::string& watched, const Words& faults) const;
  // Empty without fault_files.so.
  std::optional<Outcome> run_with_faults(const std::string& watched, const Words& faults, const std::string& runs,
                                         const Words& set) const;
  std::filesystem::path run_in(const std::string& runs) const;                                  // the newest run there
  void copy_back_to(std::uint64_t step, const std::string& from, const std::string& to) const;  // folders in folder_
  std::filesystem::path checkpoint_in(const std::string& runs, std::uint64_t step) const;

  const TemporaryFolder folder_;
};

}  // namespace millrace::test

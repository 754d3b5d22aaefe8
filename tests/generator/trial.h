// A drawn pipeline, run as pipeline-run does, in a process apart.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "drawn_pipeline.h"

namespace millrace::generator {

struct Outcome {
  enum class Kind {
    refused,  // with a message: before a sample was read, or because of what the samples and numbers are
    passed,
    failed,  // with an error, though --check accepted it
    fault,   // crashed, was stopped by a sanitizer, or hung
  };
  Kind kind = Kind::refused;
  std::string said;     // the message, or how the process ended
  std::string streams;  // of a run: the hash of each epoch and pass, with what the network received
};

class Trials {
 public:
  // REQUIRES: this process has one thread. The registry outlives it.
  Trials(const Registry& registry, std::filesystem::path folder) : registry_(registry), folder_(std::move(folder)) {}

  // Writes pipeline.toml and network.toml and runs them. What is printed goes to said.txt.
  Outcome run(const DrawnPipeline& drawn, const std::vector<std::string>& overrides = {}) const;

  // Runs it, and takes out keys until it is not refused any more: those that the message points at first.
  Outcome run_valid(DrawnPipeline& drawn) const;

  // Takes out what the pipeline need not have.
  void minimise(DrawnPipeline& drawn, const std::function<bool(const DrawnPipeline&)>& still_fails) const;

 private:
  // In a process apart: what `runs` returns, an outcome for each; or one, a fault.
  std::vector<Outcome> outcomes_of(const std::function<std::vector<std::string>()>& runs) const;
  std::string run_inside(const DrawnPipeline& drawn, const std::vector<std::string>& overrides) const;
  bool take_out_what_is_wrong(DrawnPipeline& drawn, const std::string& said, Draw& draw) const;

  const Registry& registry_;
  std::filesystem::path folder_;
};

}  // namespace millrace::generator

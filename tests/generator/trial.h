// Runs a drawn pipeline like pipeline-run, in a separate process.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "drawn_pipeline.h"

namespace millrace::generator {

struct Outcome {
  enum class Kind {
    refused,  // with a message: before reading a sample, or because of the samples and values
    passed,
    failed,  // with an error, though --check accepted it
    fault,   // crashed, was stopped by a sanitizer, or hung
  };
  Kind kind = Kind::refused;
  std::string said;     // the message, or how the process ended
  std::string streams;  // the hash of each epoch and pass, including the network's input
};

class Trials {
 public:
  // REQUIRES: this process has one thread. The registry outlives it.
  Trials(const Registry& registry, std::filesystem::path folder) : registry_(registry), folder_(std::move(folder)) {}

  // Writes pipeline.toml and network.toml and runs them. Output goes to said.txt.
  Outcome run(const DrawnPipeline& drawn, const std::vector<std::string>& overrides = {}) const;

  // Runs it, and removes keys until it is accepted: those named by the message first.
  Outcome run_valid(DrawnPipeline& drawn) const;

  // Removes everything that the failure does not need.
  void minimise(DrawnPipeline& drawn, const std::function<bool(const DrawnPipeline&)>& still_fails) const;

 private:
  // Runs in a separate process: the results of `runs`, an outcome each; or one, a fault.
  std::vector<Outcome> outcomes_of(const std::function<std::vector<std::string>()>& runs) const;
  std::string run_inside(const DrawnPipeline& drawn, const std::vector<std::string>& overrides) const;
  bool take_out_what_is_wrong(DrawnPipeline& drawn, const std::string& said, Draw& draw) const;

  const Registry& registry_;
  std::filesystem::path folder_;
};

}  // namespace millrace::generator

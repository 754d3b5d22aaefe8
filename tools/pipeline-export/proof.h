// The proof that an ONNX file computes what Millrace computes: another runtime runs the whole validation.
#pragma once

#include <atomic>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "onnx_file.h"
#include "predict/model.h"

namespace millrace {

struct ProofRequest {
  std::string python = "python3";
  std::vector<std::string> overrides;             // of the run's pipeline, as `--set` gives them
  std::string onnx;                               // the file to compare
  std::string plain;                              // the same network without --results, also compared; "": none
  const OnnxFile* written = nullptr;              // describes `onnx`
  std::string weights;                            // a file of the model's weights, if its run's network is another; "": none
  std::string folder;                             // receives a dozen samples, the script and proof.json
  const std::atomic<int>* stop_signal = nullptr;  // a nonzero value stops the comparison
};

// Runs the graph that validated the weights, in float32, and sends each batch to verify.py. Returns a summary in one line, or
// nullopt if a signal stopped it. Throws Error(usage) if there is no runtime or no run, Error(data) if the results differ.
std::optional<std::string> prove(const Model& model, const OnnxOptions& options, const ProofRequest& request,
                                 const Registry& registry);

// The folder with the proof of an ONNX file: model.proof of model.onnx.
std::filesystem::path proof_of(const std::filesystem::path& onnx);
// Throws Error(usage) if something other than a proof has this name.
void require_proof_or_nothing(const std::filesystem::path& folder);

// Repeats the comparison of a proof's samples with the file.
std::string repeat_proof(const std::string& onnx, const std::string& python);

}  // namespace millrace

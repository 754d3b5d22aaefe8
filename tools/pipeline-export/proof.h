// The proof that an ONNX file computes what Millrace computes: another runtime runs the whole validation.
#pragma once

#include <string>

#include "model.h"
#include "onnx_file.h"

namespace millrace {

struct ProofRequest {
  std::string python = "python3";
  std::vector<std::string> overrides;  // of the run's pipeline, as `--set` gives them
  std::string onnx;                    // the file that is compared
  std::string folder;                  // gets a dozen samples, the script and proof.json
};

// Runs the graph that validated the weights, and sends each batch to verify.py. Returns a line for people. Throws
// Error(usage) where no runtime or no run is there, Error(data) where the results differ.
std::string prove(const Model& model, const OnnxOptions& options, const ProofRequest& request, const Registry& registry);

// Repeats the comparison of a proof's samples with the file.
std::string repeat_proof(const std::string& onnx, const std::string& python);

}  // namespace millrace

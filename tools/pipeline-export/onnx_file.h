// The bytes of an ONNX file: IR version 8, opset 17.
#pragma once

#include <optional>
#include <string>

#include "free_size.h"
#include "predict/model.h"

namespace millrace {

struct OnnxOptions {
  // True: the input is "image", uint8 (N, H, W, C), and the file normalises it. False: "input", float32 (N, C, H, W), normalised.
  bool takes_images = false;
  bool gives_results = false;  // true: the file ends with results_of(), false: with "output", as the network makes it
  bool has_free_size = false;  // height and width are free
  std::string layer;           // whose output is exported; "": the network's result
  bool unproven = false;       // the metadata say so
  std::string command;         // for the metadata
};

// What --results makes of the network's output.
struct Results {
  // "probabilities", float32 (N, classes or labels); "labels", int64 (N, H, W); "restored", uint8 (N, H, W, C); "numbers",
  // float32.
  std::string name;
  std::string applies;                 // probabilities: "softmax", "sigmoid", or "" where the network ends with it
  std::vector<float> factor, summand;  // restored: grey level = factor * output + summand, by channel
};
// Throws Error(usage) for weights whose output has no known meaning.
Results results_of(const Model& model, const Registry& registry);

struct OnnxFile {
  std::string bytes;
  bool unpools = false;  // it has a MaxUnpool, whose places near ties depend on rounding
  std::optional<FreeSize> free_size;
};

// Throws Error(usage) that lists the layers without a form in ONNX, for a file of more than 2 GB, and as free_size_of().
OnnxFile onnx_file(const Model& model, const OnnxOptions& options, const Registry& registry);

}  // namespace millrace

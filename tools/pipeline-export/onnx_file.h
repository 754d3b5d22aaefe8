// The bytes of an ONNX file: IR version 8, opset 17.
#pragma once

#include <string>

#include "predict/model.h"

namespace millrace {

struct OnnxOptions {
  // True: the input is "image", uint8 (N, H, W, C), and the file normalises it. False: "input", float32 (N, C, H, W), normalised.
  bool takes_images = false;
  // True: classes and several labels end in probabilities, (N, classes), and maps of classes in "labels", int64 (N, H, W).
  bool gives_results = false;
  std::string layer;     // whose output is exported; "": the network's result
  bool unproven = false;  // the metadata say so
};

struct OnnxFile {
  std::string bytes;
  bool unpools = false;  // it has a MaxUnpool, whose places near ties depend on rounding
};

// Throws Error(usage) that lists the layers without a form in ONNX, and for a file of more than 2 GB.
OnnxFile onnx_file(const Model& model, const OnnxOptions& options, const Registry& registry);

}  // namespace millrace

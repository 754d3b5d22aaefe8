// Runs a graph on the device, on tensors whose numbers the host knows, and looks at the results.
#pragma once

#include <map>

#include "device.h"
#include "engines.h"

namespace millrace::gpu {

class GraphRunner {
 public:
  // REQUIRES: `handle` submits to `stream`. Both live as long.
  GraphRunner(const CudnnApi& api, cudnnHandle_t handle, cudaStream_t stream, GraphKind kind, const ConvolutionCase& shape,
              Numbers type);

  // From new inputs: "error" is the largest difference from the host's own sums at some places, over the largest of these;
  // statistics are compared with those of the y that was written. Then "ms", the least of some runs.
  // With `plain`, which has run the plain data gradient: "error_everywhere" compares all elements with plain's dx + addend.
  void run(const ReadyEngine& engine, const GraphRunner* plain, Json& report);

  void* data(Tensor tensor) const { return buffers_.at(tensor).data(); }

 private:
  void prepare();  // inputs filled, results full of NaN
  void execute(const ReadyEngine& engine, void* workspace);
  Json error();
  Json statistics_error();
  Json error_everywhere(const GraphRunner& plain);
  std::vector<float> read(Tensor tensor, Numbers type, const std::vector<std::int64_t>& places);

  const CudnnApi& api_;
  cudnnHandle_t handle_;
  cudaStream_t stream_;
  const GraphKind kind_;
  const ConvolutionCase shape_;
  const Numbers type_;
  const std::vector<TensorUse> uses_;
  std::map<Tensor, Buffer> buffers_;
  std::vector<std::int64_t> places_;
  std::vector<double> wanted_;  // at these places; made when first needed
};

}  // namespace millrace::gpu

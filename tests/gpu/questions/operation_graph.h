// A GraphKind in the words of cuDNN's graph API.
#pragma once

#include <deque>

#include "convolution_case.h"
#include "cudnn/convolution_graph.h"

namespace millrace::gpu {

using cuda::CudnnApi;
using cuda::CudnnTarget;
using cuda::Descriptor;

// The finalised graph and everything that it refers to.
class OperationGraph {
 public:
  // Throws Error(device) where cuDNN has no words for it.
  OperationGraph(const CudnnApi& api, GraphKind kind, const ConvolutionCase& shape, Numbers type, const CudnnTarget& target);

  const Descriptor& native() const { return *graph_; }
  const std::string& about() const { return about_; }  // "convolution of 256 x 64 x 56 x 56 by 1 x 1 to 256, bf16"

 private:
  enum class Life : bool { memory, registers };

  Descriptor& make(cudnnBackendDescriptorType_t type);
  const Descriptor& tensor(std::int64_t id, Numbers type, const std::int64_t (&extents)[4], Life life = Life::memory);
  const Descriptor& tensor(Tensor id);                                  // as it lies in memory
  const Descriptor& between(Tensor like, Numbers type = Numbers::f32);  // in registers
  const Descriptor& convolution();
  const Descriptor& pointwise(cudnnPointwiseMode_t mode, const Descriptor& x, const Descriptor* b, const Descriptor& y);
  void add_forward(const Descriptor& x, const Descriptor& y);
  void add_stats(const Descriptor& y);
  void add_data_gradient(const Descriptor& dx, float beta);
  void add_weight_gradient();
  void add_operations();

  const CudnnApi& api_;
  const GraphKind kind_;
  const ConvolutionCase shape_;
  const Numbers type_;
  const std::string about_;
  std::deque<Descriptor> descriptors_;  // stay where they are
  std::vector<const Descriptor*> operations_;
  std::int64_t next_between_ = 100;
  const Descriptor* graph_ = nullptr;
};

}  // namespace millrace::gpu

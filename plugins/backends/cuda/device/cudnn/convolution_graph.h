// A convolution of ours in the words of cuDNN's graph API.
#pragma once

#include <deque>
#include <string>
#include <vector>

#include "descriptor.h"
#include "runtime/machine.h"

namespace millrace::cuda {

// Extents as cuDNN is told them: with padded channels where padding takes part in the sums (and adds zeros), else the real ones,
// and then padding is neither read nor written.
struct ConvolutionExtents {
  std::int64_t c = 0, k = 0, filter_c = 0;  // of x, of y, and of the filter's (k, kernel_h, kernel_w, filter_c)
  std::int64_t x_pitch = 0, y_pitch = 0;    // channels from one pixel to the next
  std::int64_t filter_elements = 0;
};
ConvolutionExtents extents_of(const ConvolutionShape& shape);

// "convolution of 256 x 64 x 56 x 56 (bf16) by 64 x 3 x 3, stride 1, ...": for messages, and unique: plans are kept by
// it.
std::string text_of(const ConvolutionShape& shape);

// Whether bias and activation of a forward convolution are part of the graph, computed by the same kernel, or left to an element
// of our own after it.
enum class Epilogue { none, fused };

// Ids by which a run binds its pointers.
enum class Bound : std::int64_t { x = 1, w = 2, y = 3, bias = 4 };

// For which device engines are chosen: one that is here, by a handle of it, or one that is only described ("deviceless": since
// cuDNN 9.8). One of the two is set.
struct CudnnTarget {
  cudnnHandle_t handle = nullptr;
  const Descriptor* properties = nullptr;
};

// The finalised operation graph and everything that it refers to. A weight gradient has the type of the maps: no engine of
// cuDNN 9.19 that is ready writes it in float32 from bf16 maps (asked for compute capabilities 8.0 to 10.0); one does that is
// compiled on the spot.
class ConvolutionGraph {
 public:
  // Throws Error(device) for what cuDNN has no words for.
  ConvolutionGraph(const CudnnApi& api, const ConvolutionShape& shape, Epilogue epilogue, const CudnnTarget& target);

  const Descriptor& native() const { return *graph_; }
  const std::string& about() const { return about_; }

 private:
  Descriptor& make(cudnnBackendDescriptorType_t type);
  const Descriptor& tensor(std::int64_t id, cudnnDataType_t type, const std::int64_t (&extents)[4],
                           const std::int64_t (&strides)[4], bool is_virtual = false);
  const Descriptor& map(std::int64_t id, cudnnDataType_t type, std::int64_t channels, std::int64_t pitch, std::int64_t height,
                        std::int64_t width, bool is_virtual = false);
  const Descriptor& filter();
  const Descriptor& convolution();
  void add_forward(Epilogue epilogue);
  void add_data_gradient();
  void add_weight_gradient();
  const Descriptor& add_pointwise(cudnnPointwiseMode_t mode, const Descriptor& x, const Descriptor* b, const Descriptor& y);

  const CudnnApi& api_;
  const ConvolutionShape shape_;
  const ConvolutionExtents extents_;
  const std::string about_;
  const cudnnDataType_t type_;
  std::deque<Descriptor> descriptors_;  // stay where they are
  std::vector<const Descriptor*> operations_;
  const Descriptor* graph_ = nullptr;
};

}  // namespace millrace::cuda

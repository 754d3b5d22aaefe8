// Expresses our convolutions in cuDNN's graph API.
#pragma once

#include <deque>
#include <string>
#include <vector>

#include "descriptor.h"
#include "runtime/machine.h"

namespace millrace::cuda {

// Extents passed to cuDNN: with padded channels if padding takes part in the sums (and adds zeros), else the real ones, and then
// padding is neither read nor written.
struct ConvolutionExtents {
  std::int64_t c = 0, k = 0, filter_c = 0;  // channels of x, of y, and of the filter's (k, kernel_h, kernel_w, filter_c)
  std::int64_t x_pitch = 0, y_pitch = 0;    // distance between pixels in channels
  std::int64_t filter_elements = 0;
};
ConvolutionExtents extents_of(const ConvolutionShape& shape);

// "convolution of 256 x 64 x 56 x 56 (bf16) by 64 x 3 x 3, stride 1, ...": for messages, and unique as the key of a plan.
std::string text_of(const ConvolutionShape& shape);

// fused: a forward convolution's bias and activation are computed by the same kernel; none: by our own element after it.
enum class Epilogue { none, fused };

// Ids by which a run binds its pointers.
enum class Bound : std::int64_t { x = 1, w = 2, y = 3, bias = 4 };

// The device for which engines are chosen: a present one, by its handle, or a described one ("deviceless": since cuDNN 9.8). One
// of the two is set.
struct CudnnTarget {
  cudnnHandle_t handle = nullptr;
  const Descriptor* properties = nullptr;
};

// The finalised operation graph and everything that it refers to. A weight gradient has the maps' type: no ready-made engine of
// cuDNN 9.19 writes it in float32 from bf16 maps (queried for compute capabilities 8.0 to 10.0); one does that is compiled at run
// time.
class ConvolutionGraph {
 public:
  // Throws Error(device) for graphs that cuDNN cannot express.
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
  std::deque<Descriptor> descriptors_;  // addresses must be stable
  std::vector<const Descriptor*> operations_;
  const Descriptor* graph_ = nullptr;
};

}  // namespace millrace::cuda

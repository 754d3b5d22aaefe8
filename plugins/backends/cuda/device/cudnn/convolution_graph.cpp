#include "convolution_graph.h"

#include <array>

#include "millrace/error.h"
#include "shape_names.h"

namespace millrace::cuda {
namespace {

using Kind = ConvolutionShape::Kind;

constexpr std::int64_t kAlignment = 16;      // bytes; for every tensor
constexpr std::int64_t kFirstVirtual = 100;  // ids of values that exist only in registers

cudnnDataType_t data_type(DataType type) {
  if (type == DataType::f32) return CUDNN_DATA_FLOAT;
  if (type == DataType::bf16) return CUDNN_DATA_BFLOAT16;
  fail(ErrorKind::usage, "a convolution of {} is not known on this backend; f32 and bf16 are", to_string(type));
}

}  // namespace

ConvolutionExtents extents_of(const ConvolutionShape& shape) {
  ConvolutionExtents extents{.x_pitch = pitch_of(shape.c), .y_pitch = pitch_of(shape.k)};
  const bool depthwise = shape.groups == shape.c && shape.groups == shape.k;
  const bool padded = shape.groups == 1 || depthwise;
  extents.c = padded ? extents.x_pitch : shape.c;
  extents.k = padded ? extents.y_pitch : shape.k;
  extents.filter_c = shape.groups == 1 ? extents.c : depthwise ? 1 : shape.c / shape.groups;
  extents.filter_elements = extents.k * shape.kernel_h * shape.kernel_w * extents.filter_c;
  return extents;
}

std::string text_of(const ConvolutionShape& s) {
  return fmt::format(
      "{} of {} x {} x {} x {} ({}{}) to {} x {} x {} by {} x {}, stride {} x {}, dilation {} x {}, padding {} {} {} {}, "
      "groups {}{}{}{}",
      name_of(s.kind, "convolution"), s.n, s.c, s.h, s.w, to_string(s.type), s.tf32 && s.type == DataType::f32 ? " as tf32" : "",
      s.k, s.out_h, s.out_w, s.kernel_h, s.kernel_w, s.stride_h, s.stride_w, s.dilation_h, s.dilation_w, s.top, s.left, s.bottom,
      s.right, s.groups, s.bias ? ", bias" : "", suffix_of(s.activation), s.accumulate ? ", added to x" : "");
}

ConvolutionGraph::ConvolutionGraph(const CudnnApi& api, const ConvolutionShape& shape, Epilogue epilogue,
                                   const CudnnTarget& target)
    : api_(api), shape_(shape), extents_(extents_of(shape)), about_(text_of(shape)), type_(data_type(shape.type)) {
  switch (shape.kind) {
    case Kind::forward: add_forward(epilogue); break;
    case Kind::data_gradient: add_data_gradient(); break;
    case Kind::weight_gradient: add_weight_gradient(); break;
  }
  Descriptor& graph = make(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  graph.set_descriptors(CUDNN_ATTR_OPERATIONGRAPH_OPS, operations_);
  if (target.handle != nullptr) graph.set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, target.handle);
  graph_ = &graph.finalize();
}

Descriptor& ConvolutionGraph::make(cudnnBackendDescriptorType_t type) { return descriptors_.emplace_back(api_, type, about_); }

const Descriptor& ConvolutionGraph::tensor(std::int64_t id, cudnnDataType_t type, const std::int64_t (&extents)[4],
                                           const std::int64_t (&strides)[4], bool is_virtual) {
  Descriptor& result = make(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  result.set(CUDNN_ATTR_TENSOR_UNIQUE_ID, id)
      .set(CUDNN_ATTR_TENSOR_DATA_TYPE, type)
      .set_all<std::int64_t>(CUDNN_ATTR_TENSOR_DIMENSIONS, extents)
      .set_all<std::int64_t>(CUDNN_ATTR_TENSOR_STRIDES, strides)
      .set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, kAlignment)
      .set(CUDNN_ATTR_TENSOR_IS_VIRTUAL, is_virtual);
  return result.finalize();
}

// cuDNN names extents in the order n, c, h, w for any memory order: the strides define channels last.
const Descriptor& ConvolutionGraph::map(std::int64_t id, cudnnDataType_t type, std::int64_t channels, std::int64_t pitch,
                                        std::int64_t height, std::int64_t width, bool is_virtual) {
  return tensor(id, type, {shape_.n, channels, height, width}, {height * width * pitch, 1, width * pitch, pitch}, is_virtual);
}

const Descriptor& ConvolutionGraph::filter() {
  const std::int64_t c = extents_.filter_c;
  return tensor(static_cast<std::int64_t>(Bound::w), type_, {extents_.k, c, shape_.kernel_h, shape_.kernel_w},
                {shape_.kernel_h * shape_.kernel_w * c, 1, shape_.kernel_w * c, c});
}

const Descriptor& ConvolutionGraph::convolution() {
  Descriptor& result = make(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
  result
      .set(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_DATA_FLOAT)  // type of the sum; for the rounding of inputs see cudnn_engines.h
      .set(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_CROSS_CORRELATION)
      .set(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, std::int64_t{2})
      .set_all<std::int64_t>(CUDNN_ATTR_CONVOLUTION_DILATIONS, std::array{shape_.dilation_h, shape_.dilation_w})
      .set_all<std::int64_t>(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, std::array{shape_.stride_h, shape_.stride_w})
      .set_all<std::int64_t>(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, std::array{shape_.top, shape_.left})
      .set_all<std::int64_t>(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, std::array{shape_.bottom, shape_.right});
  return result.finalize();
}

const Descriptor& ConvolutionGraph::add_pointwise(cudnnPointwiseMode_t mode, const Descriptor& x, const Descriptor* b,
                                                  const Descriptor& y) {
  Descriptor& what = make(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
  what.set(CUDNN_ATTR_POINTWISE_MODE, mode).set(CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_DATA_FLOAT).finalize();
  Descriptor& operation = make(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
  operation.set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, what).set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, x);
  if (b != nullptr) operation.set(CUDNN_ATTR_OPERATION_POINTWISE_BDESC, *b);
  operation.set(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y).finalize();
  operations_.push_back(&operation);
  return y;
}

void ConvolutionGraph::add_forward(Epilogue epilogue) {
  const bool biased = epilogue == Epilogue::fused && shape_.bias;
  const bool activated = epilogue == Epilogue::fused && shape_.activation != Activation::none;
  std::int64_t next_virtual = kFirstVirtual;
  const auto result = [&](bool last) -> const Descriptor& {
    if (last) return map(static_cast<std::int64_t>(Bound::y), type_, extents_.k, extents_.y_pitch, shape_.out_h, shape_.out_w);
    return map(next_virtual++, CUDNN_DATA_FLOAT, extents_.k, extents_.y_pitch, shape_.out_h, shape_.out_w, true);
  };
  const Descriptor& x = map(static_cast<std::int64_t>(Bound::x), type_, extents_.c, extents_.x_pitch, shape_.h, shape_.w);
  const Descriptor* y = &result(!biased && !activated);
  Descriptor& operation = make(CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR);
  operation.set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, x)
      .set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, filter())
      .set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y, *y)
      .set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC, convolution())
      .set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA, 1.0F)
      .set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA, 0.0F)
      .finalize();
  operations_.push_back(&operation);
  if (biased) {
    const std::int64_t k = extents_.k;
    const Descriptor& bias = tensor(static_cast<std::int64_t>(Bound::bias), CUDNN_DATA_FLOAT, {1, k, 1, 1}, {k, 1, k, k});
    y = &add_pointwise(CUDNN_POINTWISE_ADD, *y, &bias, result(!activated));
  }
  // GELU_FWD is the exact one, by the error function; the approximation has another name.
  if (activated) {
    const bool relu = shape_.activation == Activation::relu;
    add_pointwise(relu ? CUDNN_POINTWISE_RELU_FWD : CUDNN_POINTWISE_GELU_FWD, *y, nullptr, result(true));
  }
}

void ConvolutionGraph::add_data_gradient() {
  const Descriptor& dx = map(static_cast<std::int64_t>(Bound::x), type_, extents_.c, extents_.x_pitch, shape_.h, shape_.w);
  const Descriptor& dy =
      map(static_cast<std::int64_t>(Bound::y), type_, extents_.k, extents_.y_pitch, shape_.out_h, shape_.out_w);
  Descriptor& operation = make(CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR);
  operation.set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX, dx)
      .set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W, filter())
      .set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY, dy)
      .set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC, convolution())
      .set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA, 1.0F)
      .set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA, shape_.accumulate ? 1.0F : 0.0F)  // factor of x's previous contents
      .finalize();
  operations_.push_back(&operation);
}

void ConvolutionGraph::add_weight_gradient() {
  const Descriptor& x = map(static_cast<std::int64_t>(Bound::x), type_, extents_.c, extents_.x_pitch, shape_.h, shape_.w);
  const Descriptor& dy =
      map(static_cast<std::int64_t>(Bound::y), type_, extents_.k, extents_.y_pitch, shape_.out_h, shape_.out_w);
  Descriptor& operation = make(CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR);
  operation.set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW, filter())
      .set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X, x)
      .set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY, dy)
      .set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC, convolution())
      .set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA, 1.0F)
      .set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA, 0.0F)
      .finalize();
  operations_.push_back(&operation);
}

}  // namespace millrace::cuda

#include "operation_graph.h"

#include <array>

#include "millrace/error.h"

namespace millrace::cuda {

template <>
struct CudnnType<cudnnGenStatsMode_t> {
  static constexpr cudnnBackendAttributeType_t value = CUDNN_TYPE_GENSTATS_MODE;
};

}  // namespace millrace::cuda

namespace millrace::gpu {
namespace {

constexpr std::int64_t kAlignment = 16;  // bytes

cudnnDataType_t native_type(Numbers type) {
  switch (type) {
    case Numbers::f32: return CUDNN_DATA_FLOAT;
    case Numbers::f16: return CUDNN_DATA_HALF;
    case Numbers::bf16: return CUDNN_DATA_BFLOAT16;
  }
  return CUDNN_DATA_FLOAT;
}

}  // namespace

OperationGraph::OperationGraph(const CudnnApi& api, GraphKind kind, const ConvolutionCase& shape, Numbers type,
                               const CudnnTarget& target)
    : api_(api),
      kind_(kind),
      shape_(shape),
      type_(type),
      about_(fmt::format("{} of {}, {}", name_of(kind), text_of(shape), name_of(type))) {
  add_operations();
  Descriptor& graph = make(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  graph.set_descriptors(CUDNN_ATTR_OPERATIONGRAPH_OPS, operations_);
  if (target.handle != nullptr) graph.set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, target.handle);
  graph_ = &graph.finalize();
}

Descriptor& OperationGraph::make(cudnnBackendDescriptorType_t type) { return descriptors_.emplace_back(api_, type, about_); }

// Extents are n, c, h, w in cuDNN's order; memory is channels last.
const Descriptor& OperationGraph::tensor(std::int64_t id, Numbers type, const std::int64_t (&e)[4], Life life) {
  Descriptor& result = make(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  result.set(CUDNN_ATTR_TENSOR_UNIQUE_ID, id)
      .set(CUDNN_ATTR_TENSOR_DATA_TYPE, native_type(type))
      .set_all<std::int64_t>(CUDNN_ATTR_TENSOR_DIMENSIONS, e)
      .set_all<std::int64_t>(CUDNN_ATTR_TENSOR_STRIDES, std::array{e[1] * e[2] * e[3], std::int64_t{1}, e[1] * e[3], e[1]})
      .set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, kAlignment)
      .set(CUDNN_ATTR_TENSOR_IS_VIRTUAL, life == Life::registers);
  return result.finalize();
}

const Descriptor& OperationGraph::tensor(Tensor which) {
  const auto id = static_cast<std::int64_t>(which);
  for (const TensorUse& use : tensors_of(kind_, shape_, type_)) {
    if (use.tensor != which) continue;
    const std::int64_t out = shape_.out_extent();
    switch (which) {
      case Tensor::x:
      case Tensor::addend: return tensor(id, use.type, {shape_.n, shape_.c, shape_.extent, shape_.extent});
      case Tensor::w: return tensor(id, use.type, {shape_.k, shape_.c, shape_.kernel, shape_.kernel});
      case Tensor::y: return tensor(id, use.type, {shape_.n, shape_.k, out, out});
      default: return tensor(id, use.type, {1, use.count, 1, 1});
    }
  }
  fail(ErrorKind::run, "{} has no tensor {}", about_, id);
}

const Descriptor& OperationGraph::between(Tensor like, Numbers type) {
  const std::int64_t out = shape_.out_extent();
  if (like == Tensor::y) return tensor(next_between_++, type, {shape_.n, shape_.k, out, out}, Life::registers);
  return tensor(next_between_++, type, {shape_.n, shape_.c, shape_.extent, shape_.extent}, Life::registers);
}

const Descriptor& OperationGraph::convolution() {
  const std::array same{std::int64_t{1}, std::int64_t{1}};
  Descriptor& result = make(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
  result.set(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_DATA_FLOAT)
      .set(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_CROSS_CORRELATION)
      .set(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, std::int64_t{2})
      .set_all<std::int64_t>(CUDNN_ATTR_CONVOLUTION_DILATIONS, same)
      .set_all<std::int64_t>(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, std::array{shape_.stride, shape_.stride})
      .set_all<std::int64_t>(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, std::array{shape_.padding(), shape_.padding()})
      .set_all<std::int64_t>(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, std::array{shape_.padding(), shape_.padding()});
  return result.finalize();
}

const Descriptor& OperationGraph::pointwise(cudnnPointwiseMode_t mode, const Descriptor& x, const Descriptor* b,
                                            const Descriptor& y) {
  Descriptor& what = make(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
  what.set(CUDNN_ATTR_POINTWISE_MODE, mode).set(CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_DATA_FLOAT).finalize();
  Descriptor& operation = make(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
  operation.set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, what).set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, x);
  if (b != nullptr) operation.set(CUDNN_ATTR_OPERATION_POINTWISE_BDESC, *b);
  operations_.push_back(&operation.set(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y).finalize());
  return y;
}

void OperationGraph::add_forward(const Descriptor& x, const Descriptor& y) {
  Descriptor& operation = make(CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR);
  operation.set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, x)
      .set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, tensor(Tensor::w))
      .set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y, y)
      .set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC, convolution())
      .set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA, 1.0F)
      .set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA, 0.0F);
  operations_.push_back(&operation.finalize());
}

void OperationGraph::add_stats(const Descriptor& y) {
  Descriptor& operation = make(CUDNN_BACKEND_OPERATION_GEN_STATS_DESCRIPTOR);
  operation.set(CUDNN_ATTR_OPERATION_GENSTATS_MODE, CUDNN_GENSTATS_SUM_SQSUM)
      .set(CUDNN_ATTR_OPERATION_GENSTATS_MATH_PREC, CUDNN_DATA_FLOAT)
      .set(CUDNN_ATTR_OPERATION_GENSTATS_XDESC, y)
      .set(CUDNN_ATTR_OPERATION_GENSTATS_SUMDESC, tensor(Tensor::sum))
      .set(CUDNN_ATTR_OPERATION_GENSTATS_SQSUMDESC, tensor(Tensor::squares));
  operations_.push_back(&operation.finalize());
}

void OperationGraph::add_data_gradient(const Descriptor& dx, float beta) {
  Descriptor& operation = make(CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR);
  operation.set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX, dx)
      .set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W, tensor(Tensor::w))
      .set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY, tensor(Tensor::y))
      .set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC, convolution())
      .set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA, 1.0F)
      .set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA, beta);
  operations_.push_back(&operation.finalize());
}

void OperationGraph::add_weight_gradient() {
  Descriptor& operation = make(CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR);
  operation.set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW, tensor(Tensor::w))
      .set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X, tensor(Tensor::x))
      .set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY, tensor(Tensor::y))
      .set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC, convolution())
      .set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA, 1.0F)
      .set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA, 0.0F);
  operations_.push_back(&operation.finalize());
}

void OperationGraph::add_operations() {
  const auto with_bias = [&](cudnnPointwiseMode_t activation) {
    const Descriptor& sum = between(Tensor::y);
    add_forward(tensor(Tensor::x), sum);
    const Descriptor& biased = pointwise(CUDNN_POINTWISE_ADD, sum, &tensor(Tensor::bias), between(Tensor::y));
    pointwise(activation, biased, nullptr, tensor(Tensor::y));
  };
  const auto with_stats = [&](const Descriptor& x) {
    const Descriptor& y = tensor(Tensor::y);
    add_forward(x, y);
    add_stats(y);
  };
  switch (kind_) {
    case GraphKind::forward: return add_forward(tensor(Tensor::x), tensor(Tensor::y));
    case GraphKind::forward_stats: return with_stats(tensor(Tensor::x));
    case GraphKind::scaled_stats: {
      const Descriptor& scaled = pointwise(CUDNN_POINTWISE_MUL, tensor(Tensor::x), &tensor(Tensor::scale), between(Tensor::x));
      const Descriptor& biased = pointwise(CUDNN_POINTWISE_ADD, scaled, &tensor(Tensor::bias), between(Tensor::x));
      // What a convolution multiplies has to have the type of its weights, or only one engine for fp16 takes the graph.
      return with_stats(pointwise(CUDNN_POINTWISE_RELU_FWD, biased, nullptr, between(Tensor::x, type_)));
    }
    case GraphKind::bias_relu: return with_bias(CUDNN_POINTWISE_RELU_FWD);
    case GraphKind::bias_gelu: return with_bias(CUDNN_POINTWISE_GELU_FWD);
    case GraphKind::bias_gelu_tanh: return with_bias(CUDNN_POINTWISE_GELU_APPROX_TANH_FWD);
    case GraphKind::data_gradient: return add_data_gradient(tensor(Tensor::x), 0);
    case GraphKind::data_gradient_beta: return add_data_gradient(tensor(Tensor::x), 1);
    case GraphKind::data_gradient_add: {
      const Descriptor& gradient = between(Tensor::x);
      add_data_gradient(gradient, 0);
      pointwise(CUDNN_POINTWISE_ADD, gradient, &tensor(Tensor::addend), tensor(Tensor::x));
      return;
    }
    case GraphKind::weight_gradient:
    case GraphKind::weight_gradient_f32: return add_weight_gradient();
  }
}

}  // namespace millrace::gpu

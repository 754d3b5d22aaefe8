// max_pool, average_pool and global_average_pool.
#include "millrace/backend/network.h"
#include "millrace/detail/types.h"
#include "network/definition.h"
#include "network/native_layers.h"

namespace millrace::ops {
namespace {

struct PoolParams {
  std::optional<Size> kernel;
  std::optional<Size> stride;
  Value padding = Value(std::int64_t{0});
  bool ceil_mode = false;
  bool count_padding = false;
};

void describe_window(ParamSet<PoolParams>& set) {
  set.add("stride", &PoolParams::stride).range(1, 4096).unit("pixels").text("distance between windows; default: kernel");
  set.add("padding", &PoolParams::padding)
      .unit("pixels")
      .text("padding of the input: a number, [height, width], [top, left, bottom, right], \"same\" or \"valid\"");
  set.add("ceil_mode", &PoolParams::ceil_mode).text("a last window may start inside the input and end outside");
}

void describe_max(ParamSet<PoolParams>& set) {
  set.add("kernel", &PoolParams::kernel).required().range(1, 4096).unit("pixels").text("size of the window");
  describe_window(set);
}

void describe_average(ParamSet<PoolParams>& set) {
  set.add("kernel", &PoolParams::kernel).range(1, 4096).unit("pixels").text("window size; default: the whole map");
  describe_window(set);
  set.add("count_padding", &PoolParams::count_padding).text("divide by the window size instead of its pixels inside the input");
}

void check_pool(const PoolParams& params, Diagnostics& errors) {
  read_padding(params.padding, errors);
  if (params.ceil_mode && params.count_padding) {
    errors.add(params.padding.at(), "'ceil_mode' and 'count_padding' do not go together: leave one of them out");
  }
}

LayerPlan infer_pool(const PoolParams& params, const std::vector<Shape>& inputs) {
  require_maps(inputs[0]);
  Diagnostics checked;
  const Size kernel = params.kernel.value_or(Size{inputs[0][1], inputs[0][2]});
  const Size stride = params.stride.value_or(kernel);
  const Placement placement = place({kernel, stride, {1, 1}, read_padding(params.padding, checked), params.ceil_mode}, inputs[0]);
  LayerPlan plan;
  plan.output = {inputs[0][0], placement.height, placement.width};
  plan.attributes = attributes(PoolAttributes{kernel, stride, placement.padding, params.count_padding});
  return plan;
}

LayerPlan infer_global(const NoParams&, const std::vector<Shape>& inputs) {
  require_maps(inputs[0]);
  LayerPlan plan;
  plan.output = {inputs[0][0]};
  return plan;
}

void write_pool(OnnxLayer& onnx, const char* op, std::vector<OnnxAttribute> more) {
  const auto& pool = onnx.layer().as<PoolAttributes>();
  more.push_back({"kernel_shape", std::vector{pool.kernel.height, pool.kernel.width}});
  more.push_back({"strides", std::vector{pool.stride.height, pool.stride.width}});
  more.push_back({"pads", onnx_pads(pool.padding)});
  onnx.output(onnx.add(op, {onnx.input()}, std::move(more)));
}

void write_max(OnnxLayer& onnx) { write_pool(onnx, "MaxPool", {}); }

// The window is the whole map, as without 'kernel'.
bool covers_map(const OnnxLayer& onnx) {
  const auto& pool = onnx.layer().as<PoolAttributes>();
  const Padding& padding = pool.padding;
  return pool.kernel.height == onnx.input_shape()[1] && pool.kernel.width == onnx.input_shape()[2] && padding.top == 0 &&
         padding.left == 0 && padding.bottom == 0 && padding.right == 0;
}

void write_average(OnnxLayer& onnx) {
  if (onnx.has_free_size() && covers_map(onnx)) return onnx.output(onnx.add("GlobalAveragePool", {onnx.input()}));
  const std::int64_t counts = onnx.layer().as<PoolAttributes>().count_padding ? 1 : 0;
  write_pool(onnx, "AveragePool", {{"count_include_pad", counts}});
}

void write_global(OnnxLayer& onnx) {
  onnx.output(onnx.add("Flatten", {onnx.add("GlobalAveragePool", {onnx.input()})}));
}

}  // namespace

LayerType max_pool_type() {
  return make_layer_type<PoolParams>(
      {.name = "max_pool",
       .text = "The largest value of each window.",
       .examples = {{"kernel = 2", {{8, 6, 7}}}, {"kernel = 3\nstride = 2\npadding = 1\nceil_mode = true", {{20, 6, 7}}}},
       .describe = describe_max,
       .check = check_pool,
       .infer = infer_pool,
       .write_onnx = write_max});
}

LayerType average_pool_type() {
  return make_layer_type<PoolParams>({.name = "average_pool",
                                      .text = "The mean of each window.",
                                      .examples = {{"kernel = 2", {{8, 6, 7}}},
                                                   {"kernel = 3\nstride = 1\npadding = 1\ncount_padding = true", {{9, 5, 5}}},
                                                   {"", {{20, 3, 4}}}},
                                      .describe = describe_average,
                                      .check = check_pool,
                                      .infer = infer_pool,
                                      .write_onnx = write_average});
}

LayerType global_average_pool_type() {
  return make_layer_type(PlainDefinition{.name = "global_average_pool",
                                         .text = "The mean of each channel, as a vector.",
                                         .examples = {{"", {{9, 5, 7}}}},
                                         .infer = infer_global,
                                         .write_onnx = write_global});
}

}  // namespace millrace::ops

// conv and transposed_conv.
#include <fmt/format.h>

#include "millrace/backend/network.h"
#include "millrace/detail/types.h"
#include "network/definition.h"
#include "network/native_layers.h"

namespace millrace::ops {
namespace {

struct ConvParams : WeightParams {
  std::int64_t out = 0;
  Size kernel;
  Size stride = {1, 1};
  Size dilation = {1, 1};
  Value padding = Value(std::int64_t{0});
  std::int64_t groups = 1;
  bool bias = true;
};

template <class Params>
void describe_window(ParamSet<Params>& set, const char* padding) {
  set.add("out", &ConvParams::out).required().range(1, kMaxChannels).text("number of filters");
  set.add("kernel", &ConvParams::kernel).required().range(1, 4096).unit("pixels").text("size of the filters");
  set.add("stride", &ConvParams::stride).range(1, 4096).unit("pixels").text("distance between positions");
  set.add("dilation", &ConvParams::dilation).range(1, 4096).unit("pixels").text("distance between weights of a filter");
  set.add("padding", &ConvParams::padding)
      .unit("pixels")
      .text(fmt::format("{}: a number, [height, width], [top, left, bottom, right], \"same\" or \"valid\"", padding));
}

template <class Params>
void describe_filters(ParamSet<Params>& set) {
  set.add("groups", &ConvParams::groups).range(1, kMaxChannels).text("number of groups of channels and filters");
  set.add("bias", &ConvParams::bias).text("add a bias per filter");
  WeightParams::describe(set);
}

void describe_conv(ParamSet<ConvParams>& set) {
  describe_window(set, "zero padding of the input");
  describe_filters(set);
}

void check_conv(const ConvParams& params, Diagnostics& errors) {
  read_padding(params.padding, errors);
  check_initialisers(params, 4, errors);
}

void require_groups(const ConvParams& params, const Shape& input) {
  require_maps(input);
  if (input[0] % params.groups == 0 && params.out % params.groups == 0) return;
  fail(ErrorKind::usage, "groups = {} must divide both the {} channels of its input and the {} filters", params.groups, input[0],
       params.out);
}

LayerPlan infer_conv(const ConvParams& params, const std::vector<Shape>& inputs) {
  const Shape& input = inputs[0];
  require_groups(params, input);
  Diagnostics checked;
  const Placement placement =
      place({params.kernel, params.stride, params.dilation, read_padding(params.padding, checked)}, input);
  const std::int64_t in = input[0] / params.groups;
  const std::int64_t fan_in = in * params.kernel.height * params.kernel.width;

  LayerPlan plan;
  plan.output = {params.out, placement.height, placement.width};
  plan.parameters.push_back(
      weight_parameter(params, {params.out, in, params.kernel.height, params.kernel.width}, kDefaultWeight));
  if (params.bias) plan.parameters.push_back(bias_parameter(params, {params.out}, default_bias(fan_in)));
  if (plan.parameters[0].initialiser.rule == "whiten" && params.out != 2 * fan_in) {
    fail(ErrorKind::usage, "the initialiser 'whiten' makes {} filters, two for each value of a patch: out = {} cannot be filled",
         2 * fan_in, params.out);
  }
  plan.multiply_adds = static_cast<std::uint64_t>(plan.output.elements()) * static_cast<std::uint64_t>(fan_in);
  plan.attributes = attributes(
      ConvAttributes{params.out, params.kernel, params.stride, params.dilation, placement.padding, params.groups, params.bias});
  return plan;
}

struct TransposedConvParams : ConvParams {
  Size output_padding;
};

void describe_transposed_conv(ParamSet<TransposedConvParams>& set) {
  describe_window(set, "rows and columns cropped around the output");
  set.add("output_padding", &TransposedConvParams::output_padding)
      .range(0, 4095)
      .unit("pixels")
      .text("rows and columns added at the end of the output; less than the stride");
  describe_filters(set);
}

void check_transposed_conv(const TransposedConvParams& params, Diagnostics& errors) {
  check_conv(params, errors);
  Diagnostics checked;
  if (read_initialiser(params.initialiser, {}, 4, checked).rule == "whiten") {
    errors.add(params.initialiser.at(), "the initialiser 'whiten' is for the weights of a conv");
  }
}

// PyTorch's ConvTranspose2d: weights (in, out / groups, height, width). Its fan in uses the second extent of the weights, that
// is, output channels per group times the kernel's size, rather than the terms of an output's sum.
LayerPlan infer_transposed_conv(const TransposedConvParams& params, const std::vector<Shape>& inputs) {
  const Shape& input = inputs[0];
  require_groups(params, input);
  Diagnostics checked;
  const Window window{params.kernel, params.stride, params.dilation, read_padding(params.padding, checked)};
  const Placement placement = place_transposed(window, params.output_padding, input);
  const std::int64_t out = params.out / params.groups;
  const std::int64_t fan_in = out * params.kernel.height * params.kernel.width;

  LayerPlan plan;
  plan.output = {params.out, placement.height, placement.width};
  plan.parameters.push_back(weight_parameter(params, {input[0], out, params.kernel.height, params.kernel.width}, kDefaultWeight));
  if (params.bias) plan.parameters.push_back(bias_parameter(params, {params.out}, default_bias(fan_in)));
  plan.multiply_adds = static_cast<std::uint64_t>(input.elements()) * static_cast<std::uint64_t>(fan_in);
  plan.attributes = attributes(ConvAttributes{params.out, params.kernel, params.stride, params.dilation, placement.padding,
                                              params.groups, params.bias, /*transposed=*/true});
  return plan;
}

void write_conv(OnnxLayer& onnx) {
  const auto& conv = onnx.layer().as<ConvAttributes>();
  std::vector<std::string> inputs = {onnx.input(), onnx.parameter(0)};
  if (conv.bias) inputs.push_back(onnx.parameter(1));
  std::vector<OnnxAttribute> attributes = {{"kernel_shape", std::vector{conv.kernel.height, conv.kernel.width}},
                                           {"strides", std::vector{conv.stride.height, conv.stride.width}},
                                           {"dilations", std::vector{conv.dilation.height, conv.dilation.width}},
                                           {"pads", onnx_pads(conv.padding)},
                                           {"group", conv.groups}};
  if (conv.transposed) {  // rows and columns that no window of the input reaches, at the end
    const auto missing = [](std::int64_t in, std::int64_t out, std::int64_t kernel, std::int64_t stride, std::int64_t dilation,
                            std::int64_t cut) { return out - ((in - 1) * stride + dilation * (kernel - 1) + 1 - cut); };
    const Shape &in = onnx.input_shape(), &out = onnx.output_shape();
    attributes.push_back({"output_padding",
                          std::vector{missing(in[1], out[1], conv.kernel.height, conv.stride.height, conv.dilation.height,
                                              conv.padding.top + conv.padding.bottom),
                                      missing(in[2], out[2], conv.kernel.width, conv.stride.width, conv.dilation.width,
                                              conv.padding.left + conv.padding.right)}});
  }
  onnx.output(onnx.add(conv.transposed ? "ConvTranspose" : "Conv", std::move(inputs), std::move(attributes)));
}

}  // namespace

LayerType conv_type() {
  return make_layer_type<ConvParams>({.name = "conv",
                                      .text = "Convolution over maps.",
                                      .examples = {{"out = 9\nkernel = 3\npadding = 1", {{8, 5, 7}}},
                                                   {"out = 8\nkernel = [3, 2]\nstride = 2\nbias = false", {{20, 6, 5}}},
                                                   {"out = 16\nkernel = 3\ngroups = 4\ndilation = 2\npadding = 2", {{8, 6, 6}}}},
                                      .describe = describe_conv,
                                      .check = check_conv,
                                      .infer = infer_conv,
                                      .write_onnx = write_conv});
}

LayerType transposed_conv_type() {
  return make_layer_type<TransposedConvParams>(
      {.name = "transposed_conv",
       .text = "Transposed convolution over maps: each input value adds a multiple of the filters to the output.",
       .examples = {{"out = 9\nkernel = 2\nstride = 2", {{8, 5, 7}}},
                    {"out = 8\nkernel = [3, 4]\nstride = [2, 3]\npadding = [1, 0, 0, 1]\noutput_padding = 1\nbias = false",
                     {{20, 4, 3}}},
                    {"out = 16\nkernel = 3\ngroups = 4\ndilation = 2\npadding = 2", {{8, 6, 6}}}},
       .describe = describe_transposed_conv,
       .check = check_transposed_conv,
       .infer = infer_transposed_conv,
       .write_onnx = write_conv});
}

}  // namespace millrace::ops

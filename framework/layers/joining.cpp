// add, concat and split.
#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "layers/definition.h"
#include "layers/native_layers.h"
#include "millrace/detail/types.h"

namespace millrace::ops {
namespace {

constexpr int kAny = std::numeric_limits<int>::max();

std::string list(const std::vector<Shape>& shapes) {
  std::vector<std::string> texts;
  for (const Shape& shape : shapes) texts.push_back(to_string(shape));
  return fmt::format("{}", fmt::join(texts, " and "));
}

LayerPlan infer_add(const NoParams&, const std::vector<Shape>& inputs) {
  if (!std::all_of(inputs.begin(), inputs.end(), [&](const Shape& shape) { return shape == inputs[0]; })) {
    fail(ErrorKind::usage,
         "its inputs are {}, but only equal shapes can be added: give both branches the same channels and strides", list(inputs));
  }
  LayerPlan plan;
  plan.output = inputs[0];
  return plan;
}

LayerPlan infer_concat(const NoParams&, const std::vector<Shape>& inputs) {
  LayerPlan plan;
  plan.output = inputs[0];
  for (std::size_t i = 1; i < inputs.size(); ++i) {
    bool fits = inputs[i].rank() == inputs[0].rank();
    for (int axis = 1; fits && axis < inputs[0].rank(); ++axis) fits = inputs[i][axis] == inputs[0][axis];
    if (!fits) {
      fail(ErrorKind::usage, "its inputs are {}, but channels can only be joined when height and width are equal", list(inputs));
    }
    plan.output[0] += inputs[i][0];
  }
  return plan;
}

LayerPlan infer_split(const SplitAttributes& params, const std::vector<Shape>& inputs) {
  const std::int64_t channels = inputs[0][0], first = params.channels > 0 ? params.channels : channels / 2;
  if (first >= channels || first == 0 || (params.channels == 0 && channels % 2 != 0)) {
    fail(ErrorKind::usage,
         "its input is {}: 'channels' must leave some of the {} to the second output, and without it both get "
         "half of them",
         to_string(inputs[0]), channels);
  }
  LayerPlan plan;
  plan.output = plan.more_outputs.emplace_back(inputs[0]);
  plan.output[0] = first;
  plan.more_outputs[0][0] = channels - first;
  plan.attributes = attributes(params);
  return plan;
}

std::vector<std::string> inputs_of(const OnnxLayer& onnx) {
  std::vector<std::string> inputs;
  for (int i = 0; i < onnx.inputs(); ++i) inputs.push_back(onnx.input(i));
  return inputs;
}

void write_add(OnnxLayer& onnx) { onnx.output(onnx.add(onnx.inputs() == 2 ? "Add" : "Sum", inputs_of(onnx))); }

void write_concat(OnnxLayer& onnx) { onnx.output(onnx.add("Concat", inputs_of(onnx), {{"axis", 1}})); }

void write_split(OnnxLayer& onnx) {
  const std::string sizes = onnx.integers({onnx.output_shape(0)[0], onnx.output_shape(1)[0]});
  const std::vector<std::string> parts = onnx.add_many(2, "Split", {onnx.input(), sizes}, {{"axis", 1}});
  onnx.output(parts[0], 0);
  onnx.output(parts[1], 1);
}

}  // namespace

LayerType add_type() {
  return make_layer_type(PlainDefinition{.name = "add",
                                         .text = "The sum of its inputs.",
                                         .examples = {{"", {{9, 3, 4}, {9, 3, 4}}}, {"", {{9}, {9}, {9}}}},
                                         .least_inputs = 2,
                                         .most_inputs = kAny,
                                         .infer = infer_add,
                                         .write_onnx = write_add});
}

LayerType concat_type() {
  return make_layer_type(PlainDefinition{.name = "concat",
                                         .text = "The channels of its inputs, concatenated.",
                                         .examples = {{"", {{9, 3, 4}, {16, 3, 4}}}, {"", {{9}, {5}, {16}}}},
                                         .least_inputs = 2,
                                         .most_inputs = kAny,
                                         .infer = infer_concat,
                                         .write_onnx = write_concat});
}

LayerType split_type() {
  return make_layer_type<SplitAttributes>(
      {.name = "split",
       .text = "The first channels and the rest: two outputs.",
       .examples = {{"", {{8, 5, 7}}}, {"channels = 5", {{21, 4, 3}}}, {"channels = 3", {{9}}}},
       .outputs = {{"first"}, {"second"}},
       .describe =
           [](ParamSet<SplitAttributes>& set) {
             set.add("channels", &SplitAttributes::channels).range(0).text("channels of the output 'first'; 0: half");
           },
       .infer = infer_split,
       .write_onnx = write_split});
}

}  // namespace millrace::ops

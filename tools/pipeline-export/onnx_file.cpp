#include "onnx_file.h"

#include <fmt/format.h>
#include <onnx.pb.h>  // generated

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <map>
#include <set>

#include "millrace/backend/int8.h"
#include "millrace/error.h"
#include "millrace/loss.h"
#include "network/onnx.h"

namespace millrace {
namespace {

static_assert(std::endian::native == std::endian::little, "raw_data has the lowest byte first");

constexpr std::int64_t kIrVersion = 8, kOpset = 17;
constexpr std::uint64_t kMaxBytes = std::numeric_limits<std::int32_t>::max();  // of a protobuf message

template <class Value>
void fill(onnx::Tensor& tensor, const std::string& name, const auto& shape, const std::vector<Value>& values) {
  tensor.set_name(name);
  for (const std::int64_t extent : shape) tensor.add_dims(extent);
  tensor.set_data_type(std::is_same_v<Value, float>          ? onnx::Tensor::FLOAT
                       : std::is_same_v<Value, std::uint8_t> ? onnx::Tensor::UINT8
                       : std::is_same_v<Value, std::int8_t>  ? onnx::Tensor::INT8
                       : std::is_same_v<Value, std::int32_t> ? onnx::Tensor::INT32
                                                             : onnx::Tensor::INT64);
  tensor.set_raw_data(values.data(), values.size() * sizeof(Value));
}

void add_attribute(onnx::Node& node, const OnnxAttribute& attribute) {
  onnx::Attribute& to = *node.add_attribute();
  to.set_name(attribute.name);
  if (const auto* integer = std::get_if<std::int64_t>(&attribute.value)) {
    to.set_type(onnx::Attribute::INT);
    to.set_i(*integer);
  } else if (const auto* number = std::get_if<float>(&attribute.value)) {
    to.set_type(onnx::Attribute::FLOAT);
    to.set_f(*number);
  } else if (const auto* text = std::get_if<std::string>(&attribute.value)) {
    to.set_type(onnx::Attribute::STRING);
    to.set_s(*text);
  } else {
    to.set_type(onnx::Attribute::INTS);
    for (const std::int64_t value : std::get<std::vector<std::int64_t>>(attribute.value)) to.add_ints(value);
  }
}

using Extent = std::variant<std::int64_t, std::string>;  // a number, or the name of a free one

// The batch's extent is free; `extents` follow it.
void describe(onnx::ValueInfo& value, const std::string& name, onnx::Tensor::Type type, const std::vector<Extent>& extents,
              const std::string& text) {
  value.set_name(name);
  value.set_doc_string(text);
  onnx::TensorType& tensor = *value.mutable_type()->mutable_tensor_type();
  tensor.set_elem_type(type);
  tensor.mutable_shape()->add_dim()->set_dim_param("N");
  for (const Extent& extent : extents) {
    onnx::Dimension& dimension = *tensor.mutable_shape()->add_dim();
    if (const auto* number = std::get_if<std::int64_t>(&extent))
      dimension.set_dim_value(*number);
    else
      dimension.set_dim_param(std::get<std::string>(extent));
  }
}

// Puts nodes in front: uint8 (N, H, W, C) -> (value / 255 - mean) / deviation, (N, C, H, W), the value "input".
void take_images(const Network& network, OnnxGraph& graph) {
  const auto channels = static_cast<std::int64_t>(network.input.channels);
  std::vector<float> factors, shifts;
  for (std::size_t c = 0; c < network.deviation.size(); ++c) {
    factors.push_back(static_cast<float>(1 / (255 * network.deviation[c])));
    shifts.push_back(static_cast<float>(-network.mean[c] / network.deviation[c]));
  }
  const std::vector<OnnxNode> nodes = {
      {"Cast", {"image"}, {"preparation/float"}, {{"to", std::int64_t{onnx::Tensor::FLOAT}}}},
      {"Transpose", {"preparation/float"}, {"preparation/maps"}, {{"perm", std::vector<std::int64_t>{0, 3, 1, 2}}}},
      {"Mul", {"preparation/maps", "preparation/factors"}, {"preparation/scaled"}, {}},
      {"Add", {"preparation/scaled", "preparation/shifts"}, {"input"}, {}}};
  graph.constants.push_back({"preparation/factors", {channels, 1, 1}, std::move(factors)});
  graph.constants.push_back({"preparation/shifts", {channels, 1, 1}, std::move(shifts)});
  graph.nodes.insert(graph.nodes.begin(), nodes.begin(), nodes.end());
}

// Appends nodes that turn the value "output" into results.
void give_results(const Results& results, OnnxGraph& graph) {
  const auto add = [&](const char* op, std::vector<std::string> inputs, std::string output,
                       std::vector<OnnxAttribute> attributes = {}) {
    graph.nodes.push_back({op, std::move(inputs), {std::move(output)}, std::move(attributes)});
  };
  if (results.name == "labels") {
    add("ArgMax", {"output"}, "labels", {{"axis", std::int64_t{1}}, {"keepdims", std::int64_t{0}}});
  } else if (results.name == "restored") {
    const auto channels = static_cast<std::int64_t>(results.factor.size());
    graph.constants.push_back({"results/factors", {channels, 1, 1}, results.factor});
    graph.constants.push_back({"results/summands", {channels, 1, 1}, results.summand});
    graph.constants.push_back({"results/black", {}, std::vector<float>{0}});
    graph.constants.push_back({"results/white", {}, std::vector<float>{255}});
    graph.constants.push_back({"results/half", {}, std::vector<float>{0.5F}});
    add("Mul", {"output", "results/factors"}, "results/scaled");
    add("Add", {"results/scaled", "results/summands"}, "results/levels");
    add("Clip", {"results/levels", "results/black", "results/white"}, "results/clipped");
    add("Transpose", {"results/clipped"}, "results/pixels", {{"perm", std::vector<std::int64_t>{0, 2, 3, 1}}});
    add("Add", {"results/pixels", "results/half"}, "results/raised");  // half a level is rounded up, as write_images does
    add("Floor", {"results/raised"}, "results/whole");
    add("Cast", {"results/whole"}, "restored", {{"to", std::int64_t{onnx::Tensor::UINT8}}});
  } else if (results.applies == "softmax") {
    add("Softmax", {"output"}, results.name, {{"axis", std::int64_t{1}}});
  } else {
    add(results.applies == "sigmoid" ? "Sigmoid" : "Identity", {"output"}, results.name);
  }
}

// Whether each output predicts one label independently: the loss takes numbers from 0 to 1.
bool has_several_labels(const Model& model, const Registry& registry) {
  const LossType* const loss = registry.losses().find(model.recipe.loss);
  return model.recipe.output == "numbers" && loss != nullptr && loss->info->numbers.has_value();
}

// {0: 'cat', 1: 'dog'}, as Ultralytics writes names, which other programs read.
std::string as_python(const std::vector<std::string>& names) {
  std::string text = "{";
  for (std::size_t c = 0; c < names.size(); ++c) {
    std::string escaped;
    for (const char each : names[c]) {
      if (each == '\'' || each == '\\') escaped += '\\';
      escaped += each;
    }
    text += fmt::format("{}{}: '{}'", c == 0 ? "" : ", ", c, escaped);
  }
  return text + "}";
}

// "kg" of "weight (kg)", as a column of a list is headed; "": the name has none.
std::string unit_in(const std::string& name) {
  const std::size_t open = name.rfind('(');
  return !name.ends_with(')') || open == name.npos || open == 0 ? "" : name.substr(open + 1, name.size() - open - 2);
}

void add_properties(onnx::Model& file, const Model& model, const OnnxOptions& options, const Registry& registry) {
  const auto add = [&](const std::string& key, const std::string& value) {
    onnx::Property& property = *file.add_metadata_props();
    property.set_key(key);
    property.set_value(value);
  };
  for (const auto& [key, value] : model.metadata) {
    if (!key.starts_with("plans of ")) add("millrace." + key, value);
  }
  const std::vector<std::string> numbers = number_names(model.recipe);
  if (!model.classes.empty() || !numbers.empty()) add("names", as_python(numbers.empty() ? model.classes : numbers));
  std::vector<std::string> units;
  for (const std::string& name : numbers) units.push_back(unit_in(name));
  if (std::ranges::any_of(units, [](const std::string& unit) { return !unit.empty(); })) add("units", as_python(units));
  add("task", !options.layer.empty() ? "features" : has_several_labels(model, registry) ? "multilabel" : model.recipe.output);
  add("imgsz", fmt::format("[{}, {}]", model.network->input.height, model.network->input.width));
  add("channels", fmt::format("{}", model.network->input.channels));
  add("millrace.weights_sha256", model.weights_sha256);
  if (!model.data.empty()) add("millrace.data", model.data);
  add("millrace.version", MILLRACE_VERSION);
  if (!options.command.empty()) add("millrace.command", options.command);
  if (options.unproven) add("millrace.unproven", "nobody has compared this file's results with Millrace's");
}

// The extents of maps with a free size are named: those of the image are "height" and "width".
std::vector<Extent> extents_of(const Shape& shape, const Network& network, const std::optional<FreeSize>& free) {
  std::vector<Extent> extents(shape.begin(), shape.end());
  if (!free || shape.rank() != 3) return extents;
  const ImageShape& image = network.input;
  const auto name = [&](std::size_t axis, std::int64_t own, std::int64_t other, const char* word) {
    const auto at = static_cast<int>(axis);
    if (shape[at] == free->output[at]) return;  // the same for every size
    extents[axis] = shape[at] == own && free->output[at] == other ? word : fmt::format("output_{}", word);
  };
  name(1, image.height, free->other.height, "height");
  name(2, image.width, free->other.width, "width");
  return extents;
}

// A parameter of a layer in int8: multiples of a unit by output channel.
struct Rounded {
  std::vector<float> units;
  bool is_bias = false;
};

std::map<int, Rounded> rounded_parameters(const Model& model) {
  std::map<int, Rounded> rounded;
  for (const Layer& layer : model.network->layers) {
    if (!is_int8(layer)) continue;
    Rounded weight{model.weights[static_cast<std::size_t>(layer.parameters[2])]};
    Rounded bias{weight.units, true};
    const float input = grid_of(*model.network, layer.inputs[0])->scale;
    for (float& unit : bias.units) unit *= input;
    rounded[layer.parameters[0]] = std::move(weight);
    rounded[layer.parameters[1]] = std::move(bias);
  }
  return rounded;
}

// Initialisers with integers, and the node that makes the parameter `name` of them.
template <class Integer>
void add_rounded(onnx::Graph& graph, const std::string& name, const std::vector<std::int64_t>& shape, const Rounded& rounded,
                 const std::vector<float>& values) {
  const std::size_t channels = rounded.units.size(), each = values.size() / channels;
  std::vector<Integer> integers;
  for (std::size_t i = 0; i < values.size(); ++i)
    integers.push_back(static_cast<Integer>(std::lround(double{values[i]} / double{rounded.units[i / each]})));
  const std::vector<std::size_t> by_channel = {channels};
  fill(*graph.add_initializer(), name + "/integers", shape, integers);
  fill(*graph.add_initializer(), name + "/scale", by_channel, rounded.units);
  fill(*graph.add_initializer(), name + "/zero", by_channel, std::vector<Integer>(channels));
  onnx::Node& node = *graph.add_node();
  node.set_op_type("DequantizeLinear");
  node.set_name(name);
  for (const char* part : {"/integers", "/scale", "/zero"}) node.add_input(name + part);
  node.add_output(name);
  add_attribute(node, {"axis", std::int64_t{0}});
}

}  // namespace

Results results_of(const Model& model, const Registry& registry) {
  const std::string& kind = model.recipe.output;
  const LossType* const loss = registry.losses().find(model.recipe.loss);
  const Network& network = *model.network;
  Results results;
  if (loss != nullptr) results.applies = loss->info->applies;
  if (kind == "classes" && loss == nullptr) results.applies = "softmax";
  if (network.layers.back().op == results.applies) results.applies.clear();
  if (kind == "classes" || has_several_labels(model, registry)) {
    results.name = "probabilities";
    if (results.applies.empty() || results.applies == "softmax" || results.applies == "sigmoid") return results;
  } else if (kind == "numbers" || kind == "map") {
    results.name = kind == "map" ? "labels" : kind;
    results.applies.clear();
    return results;
  } else if (kind == "image") {
    results.name = "restored";
    results.applies.clear();
    const Value* const sink = model.recipe.sinks.find("write_images");
    const Value* const normalised = sink != nullptr && sink->kind() == Value::Kind::table ? sink->find("normalised") : nullptr;
    const auto channels = static_cast<std::size_t>(network.output()[0]);
    const bool plain = normalised != nullptr && normalised->kind() == Value::Kind::boolean && !normalised->boolean();
    if (plain || network.mean.size() == channels) {
      for (std::size_t c = 0; c < channels; ++c) {
        results.factor.push_back(plain ? 255 : 255 * static_cast<float>(network.deviation[c]));
        results.summand.push_back(plain ? 0 : 255 * static_cast<float>(network.mean[c]));
      }
      return results;
    }
  }
  fail(ErrorKind::usage, "--results: the output of '{}' is \"{}\", which cannot be turned into results: leave out --results",
       model.weights_file, kind);
}

OnnxFile onnx_file(const Model& model, const OnnxOptions& options, const Registry& registry) {
  const Network& network = *model.network;
  std::optional<Results> results;
  if (options.gives_results) results = results_of(model, registry);
  std::optional<FreeSize> free;
  if (options.has_free_size) free = free_size_of(model, registry, options.layer);
  OnnxNetwork onnx = onnx_network(network, registry, options.layer, options.has_free_size);
  if (options.takes_images) take_images(network, onnx.graph);
  if (results) give_results(*results, onnx.graph);

  std::uint64_t bytes = 0;
  for (const std::vector<float>& values : model.weights) bytes += values.size() * sizeof(float);
  if (bytes > kMaxBytes - kMaxBytes / 16)
    fail(ErrorKind::usage, "the weights have {} bytes, but an ONNX file holds at most 2 GB", bytes);

  onnx::Model file;
  file.set_ir_version(kIrVersion);
  file.set_producer_name("Millrace");
  file.set_producer_version(MILLRACE_VERSION);
  file.add_opset_import()->set_version(kOpset);
  add_properties(file, model, options, registry);
  onnx::Graph& graph = *file.mutable_graph();
  graph.set_name(network.name.empty() ? "network" : network.name);

  Extent height = std::int64_t{network.input.height}, width = std::int64_t{network.input.width};
  const Extent channels = std::int64_t{network.input.channels};
  std::string sizes;
  if (free) {
    sizes = free->step == 1 ? "; any height and width"
                            : fmt::format("; height {} + a multiple of {}, width {} + a multiple of {}", network.input.height,
                                          free->step, network.input.width, free->step);
    height = "height";
    width = "width";
  }
  if (options.takes_images)
    describe(*graph.add_input(), "image", onnx::Tensor::UINT8, {height, width, channels},
             "pixels, 0 to 255, channels last" + sizes);
  else
    describe(*graph.add_input(), "input", onnx::Tensor::FLOAT, {channels, height, width},
             "(pixel / 255 - mean) / deviation" + sizes);
  std::vector<Extent> extents = extents_of(onnx.output, network, free);
  if (!results)
    describe(*graph.add_output(), "output", onnx::Tensor::FLOAT, extents, "");
  else if (results->name == "labels")
    describe(*graph.add_output(), "labels", onnx::Tensor::INT64, {extents.begin() + 1, extents.end()}, "class of each pixel");
  else if (results->name == "restored")
    describe(*graph.add_output(), "restored", onnx::Tensor::UINT8, {extents[1], extents[2], extents[0]},
             "pixels, 0 to 255, channels last");
  else
    describe(*graph.add_output(), results->name, onnx::Tensor::FLOAT, extents, "");

  const std::map<int, Rounded> rounded = rounded_parameters(model);
  for (const OnnxParameter& parameter : onnx.graph.parameters) {
    const auto index = static_cast<std::size_t>(parameter.parameter);
    const Shape& own = network.parameters[index].shape;
    const std::vector<std::int64_t> shape =
        parameter.shape.empty() ? std::vector<std::int64_t>(own.begin(), own.end()) : parameter.shape;
    const auto integers = rounded.find(parameter.parameter);
    if (integers == rounded.end())
      fill(*graph.add_initializer(), parameter.name, shape, model.weights[index]);
    else if (integers->second.is_bias)
      add_rounded<std::int32_t>(graph, parameter.name, shape, integers->second, model.weights[index]);
    else
      add_rounded<std::int8_t>(graph, parameter.name, shape, integers->second, model.weights[index]);
  }
  std::set<std::string> read;
  for (const OnnxNode& each : onnx.graph.nodes) {
    onnx::Node& node = *graph.add_node();
    node.set_op_type(each.op);
    node.set_name(each.outputs.front());
    for (const std::string& input : each.inputs) {
      node.add_input(input);
      read.insert(input);
    }
    for (const std::string& output : each.outputs) node.add_output(output);
    for (const OnnxAttribute& attribute : each.attributes) add_attribute(node, attribute);
  }
  const std::vector<std::int64_t> scalar;
  if (read.contains(kOnnxZeroInt8)) fill(*graph.add_initializer(), kOnnxZeroInt8, scalar, std::vector<std::int8_t>(1));
  if (read.contains(kOnnxZeroUint8)) fill(*graph.add_initializer(), kOnnxZeroUint8, scalar, std::vector<std::uint8_t>(1));
  for (const OnnxConstant& constant : onnx.graph.constants) {
    std::visit([&](const auto& values) { fill(*graph.add_initializer(), constant.name, constant.shape, values); },
               constant.values);
  }
  const bool unpools = std::ranges::any_of(onnx.graph.nodes, [](const OnnxNode& node) { return node.op == "MaxUnpool"; });
  return {file.SerializeAsString(), unpools, free};
}

}  // namespace millrace

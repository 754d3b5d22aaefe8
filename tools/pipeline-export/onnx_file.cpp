#include "onnx_file.h"

#include <fmt/format.h>
#include <onnx.pb.h>  // generated

#include <algorithm>
#include <bit>
#include <limits>

#include "millrace/error.h"
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
  tensor.set_data_type(std::is_same_v<Value, float> ? onnx::Tensor::FLOAT : onnx::Tensor::INT64);
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

// The batch's extent is free; `extents` follow it.
void describe(onnx::ValueInfo& value, const char* name, onnx::Tensor::Type type, const std::vector<std::int64_t>& extents,
              const std::string& text) {
  value.set_name(name);
  value.set_doc_string(text);
  onnx::TensorType& tensor = *value.mutable_type()->mutable_tensor_type();
  tensor.set_elem_type(type);
  tensor.mutable_shape()->add_dim()->set_dim_param("N");
  for (const std::int64_t extent : extents) tensor.mutable_shape()->add_dim()->set_dim_value(extent);
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

// Appends what users of the network want of the value "output".
void give_results(const Model& model, OnnxGraph& graph) {
  const std::string& kind = model.recipe.output;
  if (kind == "classes")
    graph.nodes.push_back({"Softmax", {"output"}, {"probabilities"}, {{"axis", std::int64_t{1}}}});
  else if (kind == "map")
    graph.nodes.push_back({"ArgMax", {"output"}, {"labels"}, {{"axis", std::int64_t{1}}, {"keepdims", std::int64_t{0}}}});
  else
    fail(ErrorKind::usage, "--results is for classes and maps of classes, and '{}' makes {}", model.weights_file,
         kind.empty() ? "other values" : kind);
}

void add_properties(onnx::Model& file, const Model& model, const OnnxOptions& options) {
  const auto add = [&](const std::string& key, const std::string& value) {
    onnx::Property& property = *file.add_metadata_props();
    property.set_key(key);
    property.set_value(value);
  };
  for (const auto& [key, value] : model.metadata) {
    if (!key.starts_with("plans of ")) add("millrace." + key, value);
  }
  if (!model.classes.empty()) {
    std::string names = "{";
    for (std::size_t c = 0; c < model.classes.size(); ++c) {
      std::string escaped;
      for (const char each : model.classes[c]) {
        if (each == '\'' || each == '\\') escaped += '\\';
        escaped += each;
      }
      names += fmt::format("{}{}: '{}'", c == 0 ? "" : ", ", c, escaped);
    }
    add("names", names + "}");  // as Ultralytics writes them, which other programs read
  }
  add("task", model.recipe.output);
  if (options.unproven) add("millrace.unproven", "nobody has compared this file's results with Millrace's");
}

}  // namespace

OnnxFile onnx_file(const Model& model, const OnnxOptions& options, const Registry& registry) {
  const Network& network = *model.network;
  OnnxNetwork onnx = onnx_network(network, registry, options.layer);
  if (options.takes_images) take_images(network, onnx.graph);
  if (options.gives_results) give_results(model, onnx.graph);

  std::uint64_t bytes = 0;
  for (const std::vector<float>& values : model.weights) bytes += values.size() * sizeof(float);
  if (bytes > kMaxBytes - kMaxBytes / 16) fail(ErrorKind::usage, "its weights have {} bytes, and an ONNX file holds 2 GB", bytes);

  onnx::Model file;
  file.set_ir_version(kIrVersion);
  file.set_producer_name("Millrace");
  file.set_producer_version(MILLRACE_VERSION);
  file.add_opset_import()->set_version(kOpset);
  add_properties(file, model, options);
  onnx::Graph& graph = *file.mutable_graph();
  graph.set_name(network.name.empty() ? "network" : network.name);

  const std::int64_t height = network.input.height, width = network.input.width, channels = network.input.channels;
  if (options.takes_images) {
    describe(*graph.add_input(), "image", onnx::Tensor::UINT8, {height, width, channels}, "pixels, 0 to 255, channels last");
  } else {
    describe(*graph.add_input(), "input", onnx::Tensor::FLOAT, {channels, height, width}, "(pixel / 255 - mean) / deviation");
  }
  std::vector<std::int64_t> extents(onnx.output.begin(), onnx.output.end());
  if (options.gives_results && model.recipe.output == "map")
    describe(*graph.add_output(), "labels", onnx::Tensor::INT64, {extents.begin() + 1, extents.end()}, "class of each pixel");
  else
    describe(*graph.add_output(), options.gives_results ? "probabilities" : "output", onnx::Tensor::FLOAT, extents, "");

  for (const OnnxNode& each : onnx.graph.nodes) {
    onnx::Node& node = *graph.add_node();
    node.set_op_type(each.op);
    node.set_name(each.outputs.front());
    for (const std::string& input : each.inputs) node.add_input(input);
    for (const std::string& output : each.outputs) node.add_output(output);
    for (const OnnxAttribute& attribute : each.attributes) add_attribute(node, attribute);
  }
  for (const OnnxConstant& constant : onnx.graph.constants) {
    std::visit([&](const auto& values) { fill(*graph.add_initializer(), constant.name, constant.shape, values); },
               constant.values);
  }
  for (const OnnxParameter& parameter : onnx.graph.parameters) {
    const auto index = static_cast<std::size_t>(parameter.parameter);
    const Shape& own = network.parameters[index].shape;
    const std::vector<std::int64_t> shape =
        parameter.shape.empty() ? std::vector<std::int64_t>(own.begin(), own.end()) : parameter.shape;
    fill(*graph.add_initializer(), parameter.name, shape, model.weights[index]);
  }
  const bool unpools = std::ranges::any_of(onnx.graph.nodes, [](const OnnxNode& node) { return node.op == "MaxUnpool"; });
  return {file.SerializeAsString(), unpools};
}

}  // namespace millrace

#include "onnx_file.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include "millrace/detail/types.h"
#include "millrace/error.h"
#include "millrace/layer.h"
#include "millrace/util/load_plugins.h"
#include "network/load.h"
#include "network/onnx.h"
#include "onnx.pb.h"
#include "predict/int8.h"
#include "proof.h"
#include "testkit/files.h"
#include "toml/document.h"

namespace millrace {
namespace {

Registry registry_with_layers() {
  Registry registry;
  load_plugin(registry, MILLRACE_PLUGINS "/layers.so");
  return registry;
}

std::shared_ptr<const Network> zoo_network(const std::string& name, const Registry& registry, const char* variables = "") {
  Diagnostics errors;
  Value values;
  std::istringstream list(variables);
  for (std::string each; list >> each;) apply_override(each, values, errors);
  auto network = load_network(MILLRACE_SOURCE_DIR "/pipelines/networks/" + name + ".toml", values, registry, errors);
  EXPECT_EQ(errors.text(), "");
  return network;
}

Model model_of(std::shared_ptr<const Network> network, const char* output = "classes") {
  Model model;
  model.weights_file = "weights.safetensors";
  model.recipe.output = output;
  for (const Parameter& parameter : network->parameters)
    model.weights.emplace_back(static_cast<std::size_t>(parameter.shape.elements()), 0.5F);
  model.network = std::move(network);
  return model;
}

onnx::Model parsed(const OnnxFile& written) {
  onnx::Model file;
  EXPECT_TRUE(file.ParseFromString(written.bytes));
  return file;
}

// Every value is made once, before it is taken.
void expect_whole(const onnx::Graph& graph) {
  std::set<std::string> known = {"", graph.input(0).name()};
  for (const onnx::Tensor& tensor : graph.initializer()) EXPECT_TRUE(known.insert(tensor.name()).second) << tensor.name();
  for (const onnx::Node& node : graph.node()) {
    for (const std::string& input : node.input()) EXPECT_TRUE(known.contains(input)) << node.name() << " takes " << input;
    for (const std::string& output : node.output()) EXPECT_TRUE(known.insert(output).second) << output << " twice";
  }
  EXPECT_TRUE(known.contains(graph.output(0).name()));
}

TEST(OnnxFile, EveryLayerHasAForm) {
  const Registry registry = registry_with_layers();
  for (const auto& [name, type] : registry.layers()) {
    for (const LayerExample& example : type.examples) {
      SCOPED_TRACE(name + ": " + example.table);
      Diagnostics errors;
      const std::optional<Value> table = parse_toml(example.table, "example", errors);
      ASSERT_TRUE(table) << errors.text();
      LayerPlan plan = type.plan(*table, example.inputs, errors);
      ASSERT_EQ(errors.text(), "");
      Layer layer;
      layer.name = "layer";
      layer.op = name;
      layer.input_shapes = example.inputs;
      layer.output = plan.output;
      layer.more_outputs = plan.more_outputs;
      layer.attributes = plan.attributes;
      layer.portable = plan.portable;
      std::vector<std::string> inputs, parameters;
      for (std::size_t i = 0; i < example.inputs.size(); ++i) inputs.push_back("in" + std::to_string(i));
      for (const Parameter& parameter : plan.parameters) {
        layer.parameters.push_back(static_cast<int>(parameters.size()));
        parameters.push_back(parameter.name);
      }
      OnnxGraph graph;
      OnnxLayer onnx(layer, inputs, parameters, graph);
      ASSERT_NO_THROW(type.write_onnx ? type.write_onnx(onnx) : layer.portable->write_onnx(onnx));
      for (const std::string& output : onnx.outputs()) EXPECT_NE(output, "");
    }
  }
}

TEST(OnnxFile, EveryNetworkIsWhole) {
  const Registry registry = registry_with_layers();
  for (const char* name : {"resnet18", "googlenet", "mobilenet_v3_small", "shufflenet_v2_x1_0", "convnext_tiny", "segnet_basic",
                           "unet", "densenet121", "espcn"}) {
    SCOPED_TRACE(name);
    const Model model = model_of(zoo_network(name, registry));
    const onnx::Model file = parsed(onnx_file(model, {}, registry));
    EXPECT_EQ(file.ir_version(), 8);
    EXPECT_EQ(onnx_file(model, {}, registry).unpools, std::string_view(name) == "segnet_basic");
    EXPECT_EQ(file.opset_import(0).version(), 17);
    expect_whole(file.graph());
    EXPECT_EQ(file.graph().input(0).type().tensor_type().shape().dim(0).dim_param(), "N");
  }
}

TEST(OnnxFile, TakesImagesAndGivesProbabilities) {
  const Registry registry = registry_with_layers();
  OnnxOptions options;
  options.takes_images = options.gives_results = true;
  const onnx::Model file = parsed(onnx_file(model_of(zoo_network("resnet18", registry)), options, registry));
  expect_whole(file.graph());
  const onnx::ValueInfo &input = file.graph().input(0), &output = file.graph().output(0);
  EXPECT_EQ(input.name(), "image");
  EXPECT_EQ(input.type().tensor_type().elem_type(), onnx::Tensor::UINT8);
  EXPECT_EQ(input.type().tensor_type().shape().dim(3).dim_value(), 3);
  EXPECT_EQ(output.name(), "probabilities");
  EXPECT_EQ(file.graph().node(file.graph().node_size() - 1).op_type(), "Softmax");
}

Model sized_model(const std::string& name, const Registry& registry, const char* output = "classes") {
  Model model = model_of(zoo_network(name, registry), output);
  Diagnostics errors;
  model.recipe.document = *read_document(MILLRACE_SOURCE_DIR "/pipelines/networks/" + name + ".toml", {}, errors);
  return model;
}

// Layers that halve the map leave sizes from step to step; a file of free size has names for its extents.
TEST(OnnxFile, TakesTheSizesThatItsNetworkCanProcess) {
  const Registry registry = registry_with_layers();
  OnnxOptions options;
  options.has_free_size = true;
  for (const auto& [name, step] : std::map<std::string, std::int64_t>{{"resnet18", 1},
                                                                      {"shufflenet_v2_x1_0", 1},
                                                                      {"efficientnet_b0", 1},
                                                                      {"dncnn", 1},
                                                                      {"unet", 8},
                                                                      {"fcn_resnet50", 8},
                                                                      {"convnext_tiny", 1}}) {
    SCOPED_TRACE(name);
    const Model model = sized_model(name, registry);
    const OnnxFile written = onnx_file(model, options, registry);
    ASSERT_TRUE(written.free_size);
    EXPECT_EQ(written.free_size->step, step);
    const onnx::Model file = parsed(written);
    expect_whole(file.graph());
    const onnx::TensorShape &in = file.graph().input(0).type().tensor_type().shape(),
                            &out = file.graph().output(0).type().tensor_type().shape();
    EXPECT_EQ(in.dim(2).dim_param(), "height");
    EXPECT_EQ(in.dim(3).dim_param(), "width");
    const bool is_map = out.dim_size() == 4;
    EXPECT_EQ(is_map ? out.dim(3).dim_param() : "", is_map ? "width" : "");
  }
}

TEST(OnnxFile, NamesTheLayerThatNeedsOneSize) {
  const Registry registry = registry_with_layers();
  OnnxOptions options;
  options.has_free_size = true;
  const auto refusal = [&](const Model& model) {
    return testkit::error_of([&] { onnx_file(model, options, registry); }).message();
  };
  const std::string lenet = refusal(sized_model("lenet5", registry)), alexnet = refusal(sized_model("alexnet", registry));
  EXPECT_TRUE(lenet.starts_with("--dynamic: the network 'lenet5' takes images of one size, 28 x 28: layer '")) << lenet;
  EXPECT_NE(lenet.find("(linear) differs for images of "), std::string::npos) << lenet;
  EXPECT_NE(alexnet.find("layer 'classifier.1' (linear) differs"), std::string::npos) << alexnet;
  const std::string deeplab = refusal(sized_model("deeplabv3_resnet50", registry));
  EXPECT_NE(deeplab.find("layer 'classifier.0.convs.4' (upsample) differs"), std::string::npos) << deeplab;
  options.layer = "features.12";  // before it, the network has no fixed size
  EXPECT_TRUE(onnx_file(sized_model("alexnet", registry), options, registry).free_size);
}

// What --results makes follows the run's loss.
TEST(OnnxFile, GivesWhatTheTaskMeans) {
  Registry registry = registry_with_layers();
  load_plugin(registry, MILLRACE_PLUGINS "/losses.so");
  OnnxOptions options;
  options.gives_results = options.takes_images = true;
  struct Case {
    const char *network, *output, *loss, *name, *op;
    onnx::Tensor::Type type;
  };
  for (const Case& each : {Case{"quickstart", "numbers", "binary_cross_entropy", "probabilities", "Sigmoid", onnx::Tensor::FLOAT},
                           Case{"quickstart", "numbers", "mean_squared_error", "numbers", "Identity", onnx::Tensor::FLOAT},
                           Case{"quickstart", "classes", "cross_entropy", "probabilities", "Softmax", onnx::Tensor::FLOAT},
                           Case{"unet", "map", "dice", "labels", "ArgMax", onnx::Tensor::INT64},
                           Case{"dncnn", "image", "mean_squared_error", "restored", "Cast", onnx::Tensor::UINT8}}) {
    SCOPED_TRACE(each.loss);
    Model model =
        model_of(zoo_network(each.network, registry, each.network == std::string_view("dncnn") ? "channels=3" : ""), each.output);
    model.recipe.loss = each.loss;
    const onnx::Model file = parsed(onnx_file(model, options, registry));
    expect_whole(file.graph());
    EXPECT_EQ(file.graph().output(0).name(), each.name);
    EXPECT_EQ(file.graph().output(0).type().tensor_type().elem_type(), each.type);
    EXPECT_EQ(file.graph().node(file.graph().node_size() - 1).op_type(), each.op);
  }
  EXPECT_EQ(testkit::error_of([&] { onnx_file(model_of(zoo_network("quickstart", registry), ""), options, registry); }).kind(),
            ErrorKind::usage);
}

TEST(OnnxFile, SaysWhatItIs) {
  const Registry registry = registry_with_layers();
  Model model = model_of(zoo_network("quickstart", registry), "numbers");
  model.weights_sha256 = "ab12";
  model.data = R"({"train.read":{"samples":3}})";
  Value sink;
  sink.set("columns", Value(Array{Value("weight (kg)"), Value("the baker's age")}));
  model.recipe.sinks.set("write_features", std::move(sink));
  OnnxOptions options;
  options.command = "pipeline-export runs/x --onnx x.onnx";
  std::map<std::string, std::string> said;
  const onnx::Model file = parsed(onnx_file(model, options, registry));
  for (const onnx::Property& each : file.metadata_props()) said[each.key()] = each.value();
  EXPECT_EQ(said["names"], R"({0: 'weight (kg)', 1: 'the baker\'s age'})");
  EXPECT_EQ(said["units"], "{0: 'kg', 1: ''}");
  EXPECT_EQ(said["task"], "numbers");
  EXPECT_EQ(said["imgsz"], "[32, 32]");
  EXPECT_EQ(said["millrace.weights_sha256"], "ab12");
  EXPECT_EQ(said["millrace.data"], model.data);
  EXPECT_EQ(said["millrace.command"], options.command);
  EXPECT_FALSE(said["millrace.version"].empty());
  EXPECT_FALSE(said.contains("millrace.unproven"));
}

TEST(OnnxFile, EndsAtTheLayerThatIsAskedFor) {
  const Registry registry = registry_with_layers();
  const Model model = model_of(zoo_network("resnet18", registry));
  OnnxOptions options;
  options.layer = "global_average_pool1";
  const onnx::Model file = parsed(onnx_file(model, options, registry));
  expect_whole(file.graph());
  EXPECT_EQ(file.graph().output(0).type().tensor_type().shape().dim(1).dim_value(), 512);
  for (const onnx::Tensor& tensor : file.graph().initializer()) EXPECT_FALSE(tensor.name().starts_with("fc."));
  options.layer = "global_average_pool";
  const Error error = testkit::error_of([&] { onnx_file(model, options, registry); });
  EXPECT_NE(std::string(error.what()).find("nearest is 'global_average_pool1'"), std::string::npos) << error.what();
}

// ---- int8 ----

// Every layer that can be, with the same grids.
Int8Table whole_table(const Network& network) {
  Int8Table table;
  for (const Int8Layer& each : int8_layers(network)) {
    table.layers.push_back(network.layers[static_cast<std::size_t>(each.layer)].name);
    table.values[value_name(network, each.input)] = {0.02F, true};
    table.values[value_name(network, each.output)] = {0.03F, false};
  }
  return table;
}

std::size_t count_of(const Network& network, std::string_view op) {
  return static_cast<std::size_t>(std::ranges::count(network.layers, op, &Layer::op));
}

Model with_varied_weights(Model model) {
  for (std::size_t p = 0; p < model.weights.size(); ++p) {
    for (std::size_t i = 0; i < model.weights[p].size(); ++i)
      model.weights[p][i] =
          0.01F * static_cast<float>((i * 37 + p * 11) % 101) - (model.network->parameters[p].statistic ? 0.0F : 0.4F);
  }
  return model;
}

TEST(Int8Model, HasIntegerWeightsAndNoNormalisation) {
  const Registry registry = registry_with_layers();
  const Model model = with_varied_weights(model_of(zoo_network("resnet18", registry)));
  const Int8Table table = whole_table(*model.network);
  EXPECT_EQ(table.layers.size(), 21U);
  const Model made = in_int8(model, table);
  EXPECT_EQ(count_of(*made.network, "batch_norm"), 0U);
  EXPECT_EQ(count_of(*made.network, kQuantise), table.values.size() - 1);  // the result stays float32
  ASSERT_EQ(made.weights.size(), made.network->parameters.size());
  for (const Layer& layer : made.network->layers) {
    if (layer.op != "conv" && layer.op != "linear") continue;
    SCOPED_TRACE(layer.name);
    ASSERT_TRUE(is_int8(layer));
    ASSERT_NE(grid_of(*made.network, layer.inputs[0]), nullptr);
    const std::vector<float>& values = made.weights[static_cast<std::size_t>(layer.parameters[0])];
    const std::vector<float>& scales = made.weights[static_cast<std::size_t>(layer.parameters[2])];
    ASSERT_EQ(scales.size(), static_cast<std::size_t>(layer.output[0]));
    for (std::size_t i = 0; i < values.size(); ++i) {
      const float integer = values[i] / scales[i / (values.size() / scales.size())];
      ASSERT_NEAR(integer, std::nearbyint(integer), 1e-3);
      ASSERT_LE(std::abs(integer), 127.001F);
    }
  }
}

TEST(Int8Model, FoldsANormalisationIntoTheLayerBeforeIt) {
  Registry registry;
  Diagnostics errors;
  const auto document = parse_toml(
      "input = { channels = 1, height = 4, width = 4, mean = [0.5], deviation = [0.5] }\n"
      "layers = [{ name = \"c\", op = \"conv\", out = 2, kernel = 1, bias = false }, { name = \"n\", op = \"batch_norm\", "
      "epsilon = "
      "1e-5 },\n { name = \"r\", op = \"relu\" }, { op = \"linear\", out = 2 }]\n",
      "small.toml", errors);
  Model model = model_of(build_network(*document, "small", {}, registry, errors));
  ASSERT_EQ(errors.text(), "");
  model.weights[0] = {0.5F, -2};                                      // c.weight
  model.weights[1] = {2, 1}, model.weights[2] = {0.25F, 0};           // n.weight, n.bias
  model.weights[3] = {1, -1}, model.weights[4] = {4 - 1e-5F, 0.25F};  // mean, variance
  Int8Table table = whole_table(*model.network);
  table.layers = {"c"};
  const Model made = in_int8(model, table);
  const Layer& conv = made.network->layers[1];
  ASSERT_EQ(conv.name, "c");
  EXPECT_EQ(made.network->layers[2].op, "relu");
  const auto values = [&](std::size_t index) { return made.weights[static_cast<std::size_t>(conv.parameters[index])]; };
  EXPECT_NEAR(values(0)[0], 0.5, 1e-5);  // 0.5 * 2 / sqrt(4)
  EXPECT_NEAR(values(0)[1], -4, 1e-3);
  EXPECT_NEAR(values(1)[0], 0.25 - 1, 1e-3);
  EXPECT_NEAR(values(1)[1], 2, 1e-2);
  EXPECT_EQ(count_of(*made.network, kQuantise), 2U);
}

TEST(Int8Model, LeavesTheConvolutionThatEndsANetwork) {
  const Registry registry = registry_with_layers();
  const Int8Table table = whole_table(*zoo_network("segnet_basic", registry));
  EXPECT_EQ(table.layers.size(), 8U);
  EXPECT_EQ(std::ranges::count(table.layers, "classifier"), 0);
}

TEST(Int8Model, IsWrittenWithIntegers) {
  const Registry registry = registry_with_layers();
  for (const char* name : {"resnet18", "mobilenet_v3_small", "densenet121", "convnext_tiny", "segnet_basic"}) {
    SCOPED_TRACE(name);
    const Model model = model_of(zoo_network(name, registry));
    const onnx::Model file = parsed(onnx_file(in_int8(model, whole_table(*model.network)), {}, registry));
    expect_whole(file.graph());
    std::map<std::string, std::string> made_by;
    for (const onnx::Node& node : file.graph().node()) made_by[node.output(0)] = node.op_type();
    std::size_t integers = 0;
    for (const onnx::Node& node : file.graph().node()) {
      if (node.op_type() == "Conv" || node.op_type() == "Gemm") integers += made_by[node.input(1)] == "DequantizeLinear" ? 1 : 0;
    }
    EXPECT_EQ(integers, int8_layers(*model.network).size());
  }
}

TEST(Int8Table, IsReadBackAndRefusedWhereItDoesNotFit) {
  const Registry registry = registry_with_layers();
  const auto network = zoo_network("resnet18", registry);
  Int8Table table = whole_table(*network);
  table.report = R"({"metric":"accuracy"})";
  const std::optional<Int8Table> read = int8_table_from({{Int8Table::kKey, table.text()}}, "x");
  ASSERT_TRUE(read);
  EXPECT_EQ(read->layers, table.layers);
  EXPECT_EQ(read->values, table.values);
  EXPECT_EQ(read->report, table.report);
  EXPECT_FALSE(int8_table_from({}, "x"));
  for (const char* text :
       {"", "3", "{}", R"({"version":2,"layers":[],"values":{}})", R"({"version":1,"layers":7,"values":{}})",
        R"({"version":1,"layers":[],"values":{"a":[0,true]}})", R"({"version":1,"layers":[],"values":{"a":[-1,true]}})",
        R"({"version":1,"layers":[],"values":{"a":[1e60,true]}})", R"({"version":1,"layers":[],"values":{"a":[0.5]}})"}) {
    EXPECT_EQ(testkit::error_of([&] { int8_table_from({{Int8Table::kKey, text}}, "x"); }).kind(), ErrorKind::data) << text;
  }
  table.layers = {"no such layer"};
  EXPECT_EQ(testkit::error_of([&] { int8_network(*network, table); }).kind(), ErrorKind::data);
  table = whole_table(*network);
  table.values.erase(value_name(*network, int8_layers(*network)[3].input));
  EXPECT_EQ(testkit::error_of([&] { int8_network(*network, table); }).kind(), ErrorKind::data);
}

// What the user has there is not lost.
TEST(Proof, ReplacesOnlyAProof) {
  const testkit::TestFolder folder;
  const std::filesystem::path proof = proof_of(folder.path() / "model.onnx");
  EXPECT_EQ(proof, folder.path() / "model.proof");
  require_proof_or_nothing(proof);
  std::filesystem::create_directory(proof);
  std::ofstream(proof / "mine.txt") << "kept";
  EXPECT_EQ(testkit::error_of([&] { require_proof_or_nothing(proof); }).kind(), ErrorKind::usage);
  std::ofstream(proof / "proof.json") << "{}";
  require_proof_or_nothing(proof);
}

TEST(OnnxFile, NamesALayerWithoutAForm) {
  class Odd : public PortableLayer {
   public:
    struct Params {};
    static void describe(LayerDescription<Params>& d) { d.name("odd").text("x.").example("", {{8, 5, 7}}); }
    void forward(Pass&) const override {}
    void backward(Pass&) const override {}
  };
  Registry registry;
  registry.add_layer<Odd>();
  Diagnostics errors;
  const auto document = parse_toml(
      "input = { channels = 1, height = 4, width = 4, mean = [0.5], deviation = [0.5] }\n"
      "layers = [{ name = \"strange\", op = \"odd\" }, { op = \"linear\", out = 2 }]\n",
      "odd.toml", errors);
  const auto network = build_network(*document, "odd", {}, registry, errors);
  ASSERT_EQ(errors.text(), "");
  const Error error = testkit::error_of(ErrorKind::usage, [&] { onnx_file(model_of(network), {}, registry); });
  EXPECT_NE(std::string(error.what()).find("'strange' (odd)"), std::string::npos) << error.what();
}

// Rows and columns that no window of the smaller map reaches: output_padding in PyTorch.
TEST(OnnxFile, TransposedConvolutionsKeepTheirSize) {
  const Registry registry = registry_with_layers();
  Diagnostics errors;
  const auto document = parse_toml(
      "input = { channels = 2, height = 4, width = 3, mean = [0.5, 0.5], deviation = [0.5, 0.5] }\n"
      "layers = [{ op = \"transposed_conv\", out = 3, kernel = [3, 4], stride = [2, 3], padding = [1, 0, 0, 1], output_padding = "
      "1 }]\n",
      "up.toml", errors);
  const auto network = build_network(*document, "up", {}, registry, errors);
  ASSERT_EQ(errors.text(), "");
  const onnx::Model file = parsed(onnx_file(model_of(network, "image"), {}, registry));
  const onnx::Node& node = file.graph().node(0);
  EXPECT_EQ(node.op_type(), "ConvTranspose");
  for (const onnx::Attribute& attribute : node.attribute()) {
    if (attribute.name() != "output_padding") continue;
    EXPECT_EQ(attribute.ints(0), 1);
    EXPECT_EQ(attribute.ints(1), 1);
  }
  EXPECT_EQ(file.graph().output(0).type().tensor_type().shape().dim(2).dim_value(), network->output()[1]);
}

}  // namespace
}  // namespace millrace

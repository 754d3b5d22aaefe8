#include "predict/int8.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <span>

#include "millrace/backend/fusion.h"
#include "millrace/error.h"
#include "millrace/layer.h"
#include "millrace/onnx.h"
#include "network/onnx.h"
#include "util/json.h"

namespace millrace {
namespace {

constexpr int kVersion = 1;

// Backends that know the op compute it themselves.
class Quantise final : public PortableLayer {
 public:
  explicit Quantise(const QuantiseAttributes& grid) : grid_(grid) {}
  void forward(Pass&) const override {
    fail(ErrorKind::usage, "int8 is computed on the processor alone: choose the device \"cpu\"");
  }
  void backward(Pass&) const override {}
  void write_onnx(OnnxLayer& onnx) const override {
    const std::string scale = onnx.scalar(grid_.scale), zero = grid_.is_signed ? kOnnxZeroInt8 : kOnnxZeroUint8;
    const std::string integer = onnx.add("QuantizeLinear", {onnx.input(), scale, zero});
    onnx.output(onnx.add("DequantizeLinear", {integer, scale, zero}));
  }

 private:
  const QuantiseAttributes grid_;
};

// By layer: those that read its first output; kOutside for the network's result.
std::vector<std::vector<int>> readers_of(const Network& network, const std::vector<bool>& wanted) {
  std::vector<std::vector<int>> readers(network.layers.size());
  for (std::size_t i = 0; i < network.layers.size(); ++i) {
    if (!wanted[i]) continue;
    for (const LayerPort input : network.layers[i].inputs) {
      if (input.layer >= 0) readers[static_cast<std::size_t>(input.layer)].push_back(static_cast<int>(i));
    }
  }
  readers.back().push_back(-1);
  return readers;
}

struct Statistics {
  std::vector<double> factor, shift;  // by channel
};

// y = factor * x + shift
Statistics statistics_of(const Layer& norm, const Weights& weights) {
  const auto& attributes = norm.as<BatchNormAttributes>();
  std::size_t next = 0;
  const auto values = [&](bool has) { return has ? &weights[static_cast<std::size_t>(norm.parameters[next++])] : nullptr; };
  const std::vector<float>*const gamma = values(attributes.scale), *const beta = values(attributes.shift);
  const std::vector<float>&mean = *values(true), &variance = *values(true);
  Statistics folded;
  for (std::size_t c = 0; c < mean.size(); ++c) {
    folded.factor.push_back((gamma != nullptr ? (*gamma)[c] : 1.0) / std::sqrt(double{variance[c]} + attributes.epsilon));
    folded.shift.push_back((beta != nullptr ? (*beta)[c] : 0.0) - mean[c] * folded.factor.back());
  }
  return folded;
}

// Makes the network in int8, and its weights if it is given those of the original.
class Converter {
 public:
  Converter(const Network& network, const Int8Table& table, const Weights* weights)
      : network_(network),
        table_(table),
        old_weights_(weights),
        wanted_(layers_for(network, {})),
        parameter_(network.parameters.size(), -1) {
    for (const Int8Layer& each : int8_layers(network)) {
      const std::string& name = network.layers[static_cast<std::size_t>(each.layer)].name;
      if (std::ranges::find(table.layers, name) == table.layers.end()) continue;
      chosen_[each.layer] = each;
      if (each.norm >= 0) folded_[each.norm] = each.layer;
      rounded_.insert(each.input);
      if (each.output != network.result()) rounded_.insert(each.output);
    }
    if (chosen_.size() != table.layers.size())
      fail(ErrorKind::data, "int8: {} of the {} layers cannot be computed in int8 in this network",
           table.layers.size() - chosen_.size(), table.layers.size());
    made_ = std::make_shared<Network>(network);
    made_->layers.clear();
    made_->parameters.clear();
  }

  std::shared_ptr<const Network> run() {
    set({Network::kInput, 0}, {Network::kInput, 0});
    for (int i = 0; i < static_cast<int>(network_.layers.size()); ++i) {
      const Layer& old = network_.layers[static_cast<std::size_t>(i)];
      if (!wanted_[static_cast<std::size_t>(i)]) continue;
      if (const auto at = folded_.find(i); at != folded_.end()) {
        set({i, 0}, value_.at(at->second));
        continue;
      }
      Layer layer = old;
      for (LayerPort& input : layer.inputs) input = value_.at(input);
      if (const auto at = chosen_.find(i); at != chosen_.end())
        convert(layer, at->second);
      else
        for (int& parameter : layer.parameters) parameter = keep(parameter);
      made_->layers.push_back(std::move(layer));
      const int index = static_cast<int>(made_->layers.size()) - 1;
      for (int port = 0; port < old.output_count(); ++port) set({i, port}, {index, port});
    }
    return made_;
  }
  Weights take_weights() { return std::move(weights_); }

 private:
  void set(LayerPort old, LayerPort made) {
    value_.insert_or_assign(old, made);
    if (!rounded_.contains(old)) return;
    const std::string name = value_name(network_, old);
    const auto grid = table_.values.find(name);
    if (grid == table_.values.end()) fail(ErrorKind::data, "int8: the table has no scale for the value '{}'", name);
    Layer layer;
    layer.name = fmt::format("{}/int8", name.empty() ? "input" : name);
    layer.op = kQuantise;
    layer.inputs = {made};
    const ImageShape& image = network_.input;
    layer.output = old.layer == Network::kInput ? Shape{image.channels, image.height, image.width} : network_.shape_of(old);
    layer.input_shapes = {layer.output};
    layer.attributes = std::make_shared<QuantiseAttributes>(grid->second);
    layer.portable = std::make_shared<Quantise>(grid->second);
    made_->layers.push_back(std::move(layer));
    value_.insert_or_assign(old, static_cast<int>(made_->layers.size()) - 1);
  }

  int add(Parameter parameter, std::vector<float> values) {
    made_->parameters.push_back(std::move(parameter));
    if (old_weights_ != nullptr) weights_.push_back(std::move(values));
    return static_cast<int>(made_->parameters.size()) - 1;
  }
  int keep(int parameter) {
    int& kept = parameter_[static_cast<std::size_t>(parameter)];
    const auto index = static_cast<std::size_t>(parameter);
    if (kept < 0) kept = add(network_.parameters[index], old_weights_ != nullptr ? (*old_weights_)[index] : std::vector<float>());
    return kept;
  }

  void convert(Layer& layer, const Int8Layer& from) {
    const Shape& shape = network_.parameters[static_cast<std::size_t>(layer.parameters[0])].shape;
    const auto parameter = [&](const char* name, const Shape& of) {
      Parameter made;
      made.name = fmt::format("{}.{}", layer.name, name);
      made.shape = of;
      made.trainable = false;
      made.statistic = true;
      return made;
    };
    std::vector<float> values, bias, scale;
    if (old_weights_ != nullptr) round_weights(layer, from, values, bias, scale);
    const int weight = add(parameter("weight", shape), std::move(values));
    const int shift = add(parameter("bias", {shape[0]}), std::move(bias));
    layer.parameters = {weight, shift, add(parameter("weight_scale", {shape[0]}), std::move(scale))};
    if (layer.op == "conv") {
      auto attributes = std::make_shared<ConvAttributes>(layer.as<ConvAttributes>());
      attributes->bias = true;
      layer.attributes = std::move(attributes);
    } else {
      layer.attributes = std::make_shared<LinearAttributes>(LinearAttributes{layer.as<LinearAttributes>().out, true});
    }
  }

  void round_weights(const Layer& layer, const Int8Layer& from, std::vector<float>& values, std::vector<float>& bias,
                     std::vector<float>& scales) const {
    constexpr double kMostOfBias = 1 << 30;  // of a 32-bit sum
    const float input = table_.values.at(value_name(network_, from.input)).scale;
    values = (*old_weights_)[static_cast<std::size_t>(layer.parameters[0])];
    const auto channels = static_cast<std::size_t>(layer.output[0]);
    bias = layer.parameters.size() > 1 ? (*old_weights_)[static_cast<std::size_t>(layer.parameters[1])]
                                       : std::vector<float>(channels);
    Statistics folded;
    if (from.norm >= 0) folded = statistics_of(network_.layers[static_cast<std::size_t>(from.norm)], *old_weights_);
    const std::size_t each = values.size() / channels;
    for (std::size_t c = 0; c < channels; ++c) {
      const std::span<float> filter(values.data() + c * each, each);
      double shift = bias[c], largest = 0;
      if (from.norm >= 0) {
        for (float& value : filter) value = static_cast<float>(value * folded.factor[c]);
        shift = shift * folded.factor[c] + folded.shift[c];
      }
      for (const float value : filter) largest = std::max(largest, std::abs(double{value}));
      if (!std::isfinite(shift) || std::ranges::any_of(filter, [](float value) { return !std::isfinite(value); }))
        fail(ErrorKind::data, "int8: the weights of layer '{}' are not finite", layer.name);
      const double least = std::max(std::abs(shift) / (input * kMostOfBias), 1e-30);
      const auto scale = static_cast<float>(std::max(largest / 127, least));
      for (float& value : filter) value = scale * std::clamp(std::nearbyint(value / scale), -127.0F, 127.0F);
      const double unit = double{input} * scale;
      bias[c] = static_cast<float>(unit * std::nearbyint(shift / unit));
      scales.push_back(scale);
    }
  }

  const Network& network_;
  const Int8Table& table_;
  const Weights* const old_weights_;
  const std::vector<bool> wanted_;
  std::map<int, Int8Layer> chosen_;  // by layer
  std::map<int, int> folded_;        // the normalisation's layer, and the layer that it is folded into
  std::set<LayerPort> rounded_;
  std::map<LayerPort, LayerPort> value_;  // of the original network, in the one that is made
  std::vector<int> parameter_;            // the same for parameters; -1: not kept so far
  std::shared_ptr<Network> made_;
  Weights weights_;
};

}  // namespace

std::string value_name(const Network& network, LayerPort value) {
  if (value.layer == Network::kInput) return {};
  const std::string& layer = network.layers[static_cast<std::size_t>(value.layer)].name;
  return value.port == 0 ? layer : fmt::format("{}:{}", layer, value.port);
}

std::vector<Int8Layer> int8_layers(const Network& network) {
  const std::vector<bool> wanted = layers_for(network, {});
  const auto readers = readers_of(network, wanted);
  const auto next = [&](int layer, const char* op) {
    const std::vector<int>& all = readers[static_cast<std::size_t>(layer)];
    const bool fits = all.size() == 1 && all[0] >= 0 && network.layers[static_cast<std::size_t>(all[0])].op == op;
    return fits ? all[0] : -1;
  };
  std::vector<Int8Layer> found;
  for (int i = 0; i < static_cast<int>(network.layers.size()); ++i) {
    const Layer& layer = network.layers[static_cast<std::size_t>(i)];
    if (!wanted[static_cast<std::size_t>(i)] || (layer.op != "conv" && layer.op != "linear")) continue;
    Int8Layer each{.layer = i, .norm = next(i, "batch_norm"), .input = layer.inputs[0], .output = i};
    if (each.norm >= 0) each.output = each.norm;
    if (const int relu = next(each.output.layer, "relu"); relu >= 0) each.output = relu;
    if (layer.op == "conv" && each.output == network.result()) continue;
    found.push_back(each);
  }
  return found;
}

std::string Int8Table::text() const {
  Json json = {{"version", kVersion}, {"layers", layers}, {"values", Json::object()}};
  for (const auto& [name, grid] : values) json["values"][name] = {grid.scale, grid.is_signed};
  if (!report.empty()) json["report"] = Json::parse(report);
  return json.dump();
}

std::optional<Int8Table> int8_table_from(const std::map<std::string, std::string>& metadata, const std::string& file) {
  const auto text = metadata.find(Int8Table::kKey);
  if (text == metadata.end()) return std::nullopt;
  try {
    const Json json = Json::parse(text->second, [](int depth, auto, auto&) {  // dump() is recursive
      if (depth > 8) fail(ErrorKind::data, "it is nested deeper than 8 levels");
      return true;
    });
    if (json.at("version").get<int>() != kVersion) fail(ErrorKind::data, "its version is not {}", kVersion);
    Int8Table table;
    table.layers = json.at("layers").get<std::vector<std::string>>();
    for (const auto& [name, grid] : json.at("values").items()) {
      const QuantiseAttributes read{grid.at(0).get<float>(), grid.at(1).get<bool>()};
      if (!std::isnormal(read.scale) || read.scale < 0) fail(ErrorKind::data, "the scale of '{}' is {}", name, read.scale);
      table.values[name] = read;
    }
    if (json.contains("report")) table.report = json["report"].dump();
    return table;
  } catch (const std::exception& error) {
    fail(ErrorKind::data, "'{}': the table \"int8\" of the metadata cannot be used: {}", file, error.what());
  }
}

std::shared_ptr<const Network> int8_network(const Network& network, const Int8Table& table) {
  return Converter(network, table, nullptr).run();
}

Model in_int8(Model model, const Int8Table& table) {
  Converter converter(*model.network, table, &model.weights);
  auto network = converter.run();
  model.weights = converter.take_weights();
  model.network = std::move(network);
  return model;
}

}  // namespace millrace

#include "free_size.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "millrace/error.h"
#include "network/load.h"
#include "network/onnx.h"

namespace millrace {
namespace {

constexpr std::int64_t kLargestStep = 32;
constexpr int kFar = 96;  // pixels

// The layer to which a value belongs, and its type: "'fc' (linear)".
std::string layer_of(const Network& network, const std::string& value) {
  const Layer* found = nullptr;
  for (const Layer& layer : network.layers) {
    const bool is_its = value.starts_with(layer.name) && value.size() > layer.name.size() &&
                        (value[layer.name.size()] == '/' || value[layer.name.size()] == '.');
    if (is_its && (found == nullptr || layer.name.size() > found->name.size())) found = &layer;
  }
  return found == nullptr ? fmt::format("'{}'", value) : fmt::format("'{}' ({})", found->name, found->op);
}

class SizeComparison {
 public:
  SizeComparison(const Model& model, const Registry& registry, const std::string& layer)
      : model_(model), registry_(registry), layer_(layer), here_(onnx_network(*model.network, registry, layer, true)) {}

  // Why the file cannot serve images of this size; "": it can.
  std::string obstacle(const ImageShape& shape) {
    const std::string size = fmt::format("{} x {}", shape.height, shape.width);
    Diagnostics errors;
    const SizedNetwork sized = at_size(model_.recipe, shape);
    const auto network = build_network(sized.document, model_.network->name, sized.variables, registry_, errors);
    if (!network) return fmt::format("at {} {}", size, errors.text().substr(0, errors.text().find('\n')));
    const OnnxNetwork there = onnx_network(*network, registry_, layer_, true);
    output_ = there.output;
    const std::string value = difference(*network, there.graph);
    return value.empty() ? "" : fmt::format("layer {} differs for images of {}", layer_of(*model_.network, value), size);
  }
  const Shape& output() const { return output_; }  // at the last size

 private:
  // The first value that differs; "": none does.
  std::string difference(const Network& network, const OnnxGraph& there) const {
    const OnnxGraph& here = here_.graph;
    for (std::size_t i = 0; i < here.parameters.size(); ++i) {
      const OnnxParameter& parameter = here.parameters[i];
      const auto index = static_cast<std::size_t>(parameter.parameter);
      const bool same = i < there.parameters.size() && parameter == there.parameters[i] &&
                        network.parameters[index].shape == model_.network->parameters[index].shape;
      if (!same) return model_.network->parameters[index].name;
    }
    for (std::size_t i = 0; i < here.constants.size(); ++i) {
      if (i >= there.constants.size() || here.constants[i] != there.constants[i]) return here.constants[i].name;
    }
    for (std::size_t i = 0; i < here.nodes.size(); ++i) {
      if (i < there.nodes.size() && here.nodes[i] == there.nodes[i]) continue;
      const std::string& value = here.nodes[i].outputs.front();
      return value == "output" ? (layer_.empty() ? model_.network->layers.back().name : layer_) + "/" : value;
    }
    return {};
  }

  const Model& model_;
  const Registry& registry_;
  const std::string& layer_;
  const OnnxNetwork here_;
  Shape output_;
};

}  // namespace

FreeSize free_size_of(const Model& model, const Registry& registry, const std::string& layer) {
  SizeComparison comparison(model, registry, layer);
  const ImageShape& image = model.network->input;
  std::string why;
  for (std::int64_t step = 1; step <= kLargestStep; step *= 2) {
    why.clear();
    const auto more = static_cast<int>(step);
    const int far = kFar / more + 1;  // rounding of sizes hides small differences
    for (const auto& [down, right] : {std::pair{1, 0}, {0, 1}, {3, 3}, {1, 2}, {far, 0}, {0, far}, {far, far + 1}}) {
      const ImageShape other{image.height + down * more, image.width + right * more, image.channels};
      if (why = comparison.obstacle(other); !why.empty()) break;
      if (down == far && right == far + 1) return {step, other, comparison.output()};
    }
  }
  fail(ErrorKind::usage, "--dynamic: the network '{}' takes images of one size, {} x {}: {}", model.network->name, image.height,
       image.width, why);
}

}  // namespace millrace

// The nodes of an ONNX file that compute one layer. A layer that can be exported overrides PortableLayer::write_onnx():
//
//   void write_onnx(OnnxLayer& onnx) const override {
//     onnx.output(onnx.add("LeakyRelu", {onnx.input()}, {{"alpha", slope_}}));
//   }
//
// Operators are those of opset 17 (onnx.ai/onnx/operators). Values are float32 of shape (N, C, H, W) or (N, C); N is not known.
// `pipeline-export` compares what the file computes with what Millrace computes before it keeps the file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "millrace/detail/tensor.h"

namespace millrace {

struct Layer;

struct OnnxAttribute {
  std::string name;
  std::variant<std::int64_t, float, std::string, std::vector<std::int64_t>> value;
  bool operator==(const OnnxAttribute&) const = default;
};

struct OnnxNode {
  std::string op;
  std::vector<std::string> inputs, outputs;  // names of values; an input of "" is one that is left out
  std::vector<OnnxAttribute> attributes;
  bool operator==(const OnnxNode&) const = default;
};

struct OnnxConstant {
  std::string name;
  std::vector<std::int64_t> shape;
  std::variant<std::vector<float>, std::vector<std::int64_t>> values;
  bool operator==(const OnnxConstant&) const = default;
};

// A parameter of the network as a constant of the file, perhaps in another shape of as many elements.
struct OnnxParameter {
  std::string name;
  int parameter = 0;  // index into Network::parameters
  std::vector<std::int64_t> shape;
  bool operator==(const OnnxParameter&) const = default;
};

struct OnnxGraph {
  std::vector<OnnxNode> nodes;  // each stands after the nodes whose outputs it takes
  std::vector<OnnxConstant> constants;
  std::vector<OnnxParameter> parameters;
  // Height and width are free. `pipeline-export` refuses a layer whose nodes differ at another size.
  bool has_free_size = false;
};

// Appends the nodes of one layer to a graph. Names that it returns are unique in the graph. One thread.
class OnnxLayer {
 public:
  // `inputs`: the values that the layer takes. `parameter_names`: of all parameters of the network. All of it outlives this.
  OnnxLayer(const Layer& layer, std::vector<std::string> inputs, const std::vector<std::string>& parameter_names,
            OnnxGraph& graph);

  const Layer& layer() const { return layer_; }
  int inputs() const { return static_cast<int>(inputs_.size()); }
  const Shape& input_shape(int index = 0) const;  // of one sample, (C, H, W) or (C)
  const Shape& output_shape(int port = 0) const;
  bool has_free_size() const { return graph_.has_free_size; }  // then those are the extents for one size among several

  const std::string& input(int index = 0) const { return inputs_[static_cast<std::size_t>(index)]; }
  // In the order of LayerPlan::parameters. `shape`: another one of as many elements; {}: the parameter's own.
  std::string parameter(int index, std::vector<std::int64_t> shape = {});
  std::string constant(std::vector<std::int64_t> shape, std::vector<float> values);
  std::string scalar(float value) { return constant({}, {value}); }
  std::string integers(std::vector<std::int64_t> values);  // a vector of int64, as axes and shapes are given

  // Adds a node; returns its output.
  std::string add(std::string_view op, std::vector<std::string> inputs, std::vector<OnnxAttribute> attributes = {});
  // The same for a node with `count` outputs.
  std::vector<std::string> add_many(std::size_t count, std::string_view op, std::vector<std::string> inputs,
                                    std::vector<OnnxAttribute> attributes = {});

  void output(std::string value, int port = 0);  // `value` is this output of the layer
  const std::vector<std::string>& outputs() const { return outputs_; }

 private:
  std::string unique(std::string_view part);

  const Layer& layer_;
  const std::vector<std::string> inputs_;
  const std::vector<std::string>& parameter_names_;
  OnnxGraph& graph_;
  std::vector<std::string> outputs_;  // by port
  int values_ = 0;                    // named so far
};

}  // namespace millrace

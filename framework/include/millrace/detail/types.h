// The framework's records of layer and loss types. Authors describe their classes instead (layer.h, loss.h).
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "millrace/detail/layer_plan.h"
#include "millrace/detail/tensor.h"
#include "millrace/detail/type_description.h"

namespace millrace {

class Loss;
class OnnxLayer;
struct LossInfo;

// A table of a layer with the shapes of its inputs, for gradient checks, conformance tests and documentation.
struct LayerExample {
  std::string table;  // in TOML: "slope = 0.2"
  std::vector<Shape> inputs;
};

// Kinds of values between layers. Only `values` have gradients. Indices, such as a max pooling's positions, may be left unread.
enum class Carries { values, indices };

struct LayerOutput {
  std::string name;  // "low": another layer reads it by `from = "split1:low"`
  Carries carries = Carries::values;
};

struct LayerType : TypeDescription {
  std::vector<std::string> other_names;  // common aliases: the error message suggests `name`
  std::vector<LayerExample> examples;    // at least one
  int least_inputs = 1, most_inputs = 1;
  std::vector<Carries> takes;  // by input; further inputs take values
  std::vector<LayerOutput> outputs = {{"out"}};
  // Reads the layer's table and infers shapes. Throws Error(usage) with a message about shapes; the caller adds name and
  // position. Without inputs (their shapes are unknown after an earlier mistake) it only reads the table.
  std::function<LayerPlan(const Value& table, const std::vector<Shape>& inputs, Diagnostics& errors)> plan;
  // Appends the layer to an ONNX graph (onnx.h). Null: the layer's own PortableLayer::write_onnx() does.
  std::function<void(OnnxLayer& onnx)> write_onnx;
};

// A table of a loss with the output's shape, for gradient checks, conformance tests and documentation.
struct LossExample {
  std::string table;  // in TOML
  Shape output;
};

struct LossType : TypeDescription {
  std::shared_ptr<const LossInfo> info;
  std::vector<LossExample> examples;  // at least one
  // Reads the table; mistakes go to `errors`, including those of the constructor, and the result is then null.
  std::function<std::shared_ptr<const Loss>(const Value& table, const std::string& owner, Diagnostics& errors)> create;
};

}  // namespace millrace

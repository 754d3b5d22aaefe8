// What is registered of layers and losses, as the framework sees it. Authors describe their classes instead (layer.h, loss.h).
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

// A table of a layer with the shapes of its inputs. Gradient checks, conformance tests and documentation are made from them.
struct LayerExample {
  std::string table;  // in TOML: "slope = 0.2"
  std::vector<Shape> inputs;
};

// What passes between layers. Only values have gradients. Indices, such as the places of a max pooling's largest values, may be
// left unread.
enum class Carries { values, indices };

struct LayerOutput {
  std::string name;  // "low": another layer takes it by `from = "split1:low"`
  Carries carries = Carries::values;
};

struct LayerType : TypeDescription {
  std::vector<std::string> other_names;  // that people may write instead: the message then gives `name`
  std::vector<LayerExample> examples;    // at least one
  int least_inputs = 1, most_inputs = 1;
  std::vector<Carries> takes;  // by input; those after the last take values
  std::vector<LayerOutput> outputs = {{"out"}};
  // Reads the layer's table and infers. Throws Error(usage) with a message about shapes; name and position are added by the
  // caller. Without inputs (their shapes are not known, after an earlier mistake) it only reads the table.
  std::function<LayerPlan(const Value& table, const std::vector<Shape>& inputs, Diagnostics& errors)> plan;
  // Appends the layer to an ONNX graph (onnx.h). Null: the layer's own PortableLayer::write_onnx() does.
  std::function<void(OnnxLayer& onnx)> write_onnx;
};

// A table of a loss with the output's shape. Gradient checks, conformance tests and documentation are made from them.
struct LossExample {
  std::string table;  // in TOML
  Shape output;
};

struct LossType : TypeDescription {
  std::shared_ptr<const LossInfo> info;
  std::vector<LossExample> examples;  // at least one
  // Reads the table; mistakes go to `errors`, those of the constructor too, and the result is null then.
  std::function<std::shared_ptr<const Loss>(const Value& table, const std::string& owner, Diagnostics& errors)> create;
};

}  // namespace millrace

// Describing and registering a layer with a portable operation.
//
//   class LeakyRelu : public PortableLayer {
//    public:
//     struct Params {
//       double slope = 0.01;
//     };
//     static void describe(LayerDescription<Params>& d) {
//       d.name("leaky_relu").text("x where it is positive, else slope * x.").example("slope = 0.2", {{8, 5, 7}});
//       d.params.add("slope", &Params::slope).text("of negative values");
//     }
//     explicit LeakyRelu(const Params& params);  // throws Error(usage) for what the declaration cannot say
//     ...
//   };
//   MILLRACE_PLUGIN("leaky_relu", "1.0", "The activation leaky_relu.") { registry.add_layer<LeakyRelu>(); }
#pragma once

#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "millrace/plugin.h"
#include "millrace/portable.h"

namespace millrace {

// What a layer type says about itself, in `static void describe(LayerDescription<Params>&)`.
class LayerAttributes {
 public:
  static constexpr int kAny = std::numeric_limits<int>::max();

  LayerAttributes& name(std::string_view value);
  LayerAttributes& text(std::string_view value);
  // Another name that the field has for it, "swish": a mistake is answered with name(), and the text says it too. Behind text().
  LayerAttributes& also_called(std::string_view value);
  LayerAttributes& inputs(int least, int most);  // one and one unless said
  // Names in the order of ports: the first is LayerPlan::output, the others are LayerPlan::more_outputs. One called "out" unless
  // said. All of them carry values.
  LayerAttributes& outputs(const std::vector<std::string>& names);
  LayerAttributes& example(std::string_view table, std::vector<Shape> inputs);  // see LayerExample

 protected:
  LayerType type_;
  friend class Registry;
};

template <class Params>
class LayerDescription : public LayerAttributes {
 public:
  ParamSet<Params> params;
};

template <class T>
void Registry::add_layer() {
  using Params = typename T::Params;
  auto description = std::make_shared<LayerDescription<Params>>();
  T::describe(*description);
  LayerType type = description->type_;
  static_cast<TypeDescription&>(type) = detail::description_of(type.name, type.text, description->params);
  type.plan = [description](const Value& table, const std::vector<Shape>& inputs, Diagnostics& errors) {
    const std::size_t before = errors.size();
    const Params params = read_struct(description->params, table, "op '" + description->type_.name + "'", errors);
    if (errors.size() != before) return LayerPlan{};
    const std::shared_ptr<const T> layer = detail::constructed<T>(params);
    if (inputs.empty()) return LayerPlan{};
    LayerPlan plan = layer->plan(inputs);
    plan.portable = layer;
    return plan;
  };
  add(std::move(type));
}

}  // namespace millrace

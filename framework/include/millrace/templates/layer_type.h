// Makes a LayerType from a layer's class. Included by layer.h.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "millrace/detail/type_description.h"
#include "millrace/layer.h"

namespace millrace {

struct LayerMaker {
  template <class T>
  static LayerType make() {
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
    return type;
  }
};

template <class T>
LayerType layer_type() {
  return LayerMaker::make<T>();
}

}  // namespace millrace

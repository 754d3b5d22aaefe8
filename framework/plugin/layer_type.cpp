#include "millrace/layer.h"

#include <fmt/format.h>

namespace millrace {

LayerAttributes& LayerAttributes::name(std::string_view value) {
  type_.name = value;
  return *this;
}

LayerAttributes& LayerAttributes::text(std::string_view value) {
  type_.text = value;
  return *this;
}

LayerAttributes& LayerAttributes::also_called(std::string_view value) {
  type_.other_names.emplace_back(value);
  type_.text += fmt::format(" Also called {}.", value);
  return *this;
}

LayerAttributes& LayerAttributes::inputs(int least, int most) {
  type_.least_inputs = least;
  type_.most_inputs = most;
  return *this;
}

LayerAttributes& LayerAttributes::outputs(const std::vector<std::string>& names) {
  type_.outputs.clear();
  for (const std::string& name : names) type_.outputs.push_back({name});
  return *this;
}

LayerAttributes& LayerAttributes::example(std::string_view table, std::vector<Shape> inputs) {
  type_.examples.push_back({std::string(table), std::move(inputs)});
  return *this;
}

}  // namespace millrace

#include "millrace/layer.h"

namespace millrace {

LayerAttributes& LayerAttributes::name(std::string_view value) {
  type_.name = value;
  return *this;
}

LayerAttributes& LayerAttributes::text(std::string_view value) {
  type_.text = value;
  return *this;
}

LayerAttributes& LayerAttributes::inputs(int least, int most) {
  type_.least_inputs = least;
  type_.most_inputs = most;
  return *this;
}

LayerAttributes& LayerAttributes::takes(int input, Carries what) {
  const auto index = static_cast<std::size_t>(input);
  if (type_.takes.size() <= index) type_.takes.resize(index + 1, Carries::values);
  type_.takes[index] = what;
  return *this;
}

LayerAttributes& LayerAttributes::outputs(std::vector<LayerOutput> outputs) {
  type_.outputs = std::move(outputs);
  return *this;
}

LayerAttributes& LayerAttributes::example(std::string_view table, std::vector<Shape> inputs) {
  type_.examples.push_back({std::string(table), std::move(inputs)});
  return *this;
}

}  // namespace millrace

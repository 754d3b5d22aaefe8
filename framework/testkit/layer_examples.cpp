#include "testkit/layer_examples.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

namespace millrace::testkit {
namespace {

// One input: a map from the image, or a vector from a map.
std::string input_text(const Shape& shape, std::size_t index, const char* from) {
  std::string text =
      fmt::format("{{ name = \"map{0}\", op = \"conv\", out = {1}, kernel = 1, from = \"{2}\" }},\n", index, shape[0], from);
  if (shape.rank() == 3) return text;
  return text + fmt::format("{{ name = \"vector{0}\", op = \"global_average_pool\", from = \"map{0}\" }},\n", index);
}

// Several outputs become one vector.
std::string joined_outputs(const LayerType& type) {
  if (type.outputs.size() == 1) return {};
  std::string text;
  std::vector<std::string> names;
  for (const LayerOutput& output : type.outputs) {
    if (output.carries != Carries::values) continue;
    text += fmt::format("{{ name = \"flat_{0}\", op = \"flatten\", from = \"tested:{0}\" }},\n", output.name);
    names.push_back("\"flat_" + output.name + "\"");
  }
  return text + fmt::format("{{ name = \"joined\", op = \"concat\", from = [{}] }},\n", fmt::join(names, ", "));
}

std::string table_text(std::string table) {
  std::replace(table.begin(), table.end(), '\n', ',');
  return table.empty() ? table : ", " + table;
}

}  // namespace

std::string example_network(const LayerType& type, const LayerExample& example, bool wide) {
  std::int64_t height = 4, width = 5;
  std::string layers = wide ? "{ name = \"wide\", op = \"conv\", out = 32, kernel = 1 },\n" : "";
  std::vector<std::string> names;
  for (std::size_t i = 0; i < example.inputs.size(); ++i) {
    const Shape& shape = example.inputs[i];
    if (shape.rank() == 3) {
      height = shape[1];
      width = shape[2];
    }
    layers += input_text(shape, i, wide ? "wide" : "@input");
    names.push_back(fmt::format("\"{}{}\"", shape.rank() == 3 ? "map" : "vector", i));
  }
  layers += fmt::format("{{ name = \"tested\", op = \"{}\", from = [{}]{} }},\n", type.name, fmt::join(names, ", "),
                        table_text(example.table));
  layers += joined_outputs(type);
  layers += fmt::format("{{ name = \"classifier\", op = \"linear\", out = {} }},\n", kExampleClasses);
  return fmt::format("input = {{ channels = 3, height = {}, width = {} }}\nlayers = [\n{}]\n", height, width, layers);
}

}  // namespace millrace::testkit

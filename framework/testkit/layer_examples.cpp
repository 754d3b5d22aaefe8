#include "testkit/layer_examples.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "millrace/detail/types.h"

namespace millrace::testkit {
namespace {

// One input: a map from the image, whose kernel gives it the required height and width, or a vector from a map.
std::string input_text(const Shape& shape, std::size_t index, const char* from, const Shape& image) {
  std::string kernel = "1";
  if (shape.rank() == 3 && (shape[1] != image[1] || shape[2] != image[2])) {
    kernel = fmt::format("[{}, {}]", image[1] - shape[1] + 1, image[2] - shape[2] + 1);
  }
  std::string text = fmt::format("{{ name = \"map{0}\", op = \"conv\", out = {1}, kernel = {3}, from = \"{2}\" }},\n", index,
                                 shape[0], from, kernel);
  if (shape.rank() == 3) return text;
  return text + fmt::format("{{ name = \"vector{0}\", op = \"global_average_pool\", from = \"map{0}\" }},\n", index);
}

// As high and wide as the largest maps. (C, H, W)
Shape image_of(const LayerExample& example) {
  Shape image = {3, 1, 1};
  for (const Shape& shape : example.inputs) {
    if (shape.rank() != 3) continue;
    image = {3, std::max(image[1], shape[1]), std::max(image[2], shape[2])};
  }
  return image.elements() > 3 ? image : Shape{3, 4, 5};
}

// Joins several outputs into one vector.
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
  const Shape image = image_of(example);
  std::string layers = wide ? "{ name = \"wide\", op = \"conv\", out = 32, kernel = 1 },\n" : "";
  std::vector<std::string> names;
  for (std::size_t i = 0; i < example.inputs.size(); ++i) {
    const Shape& shape = example.inputs[i];
    layers += input_text(shape, i, wide ? "wide" : "@input", image);
    names.push_back(fmt::format("\"{}{}\"", shape.rank() == 3 ? "map" : "vector", i));
  }
  layers += fmt::format("{{ name = \"tested\", op = \"{}\", from = [{}]{} }},\n", type.name, fmt::join(names, ", "),
                        table_text(example.table));
  layers += joined_outputs(type);
  layers += fmt::format("{{ name = \"classifier\", op = \"linear\", out = {} }},\n", kExampleClasses);
  return fmt::format("input = {{ channels = 3, height = {}, width = {} }}\nlayers = [\n{}]\n", image[1], image[2], layers);
}

}  // namespace millrace::testkit

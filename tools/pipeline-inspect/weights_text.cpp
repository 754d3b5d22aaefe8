#include <fmt/format.h>

#include "inspect.h"
#include "millrace/json_lines.h"
#include "network/tensor_file.h"
#include "run/usage.h"
#include "run/weights.h"

namespace millrace {

std::string describe_weights(const std::string& file) {
  const TensorFile read = read_tensors(file);
  std::size_t numbers = 0;
  for (const NamedTensor& tensor : read.tensors) numbers += tensor.values.size();
  std::string out = fmt::format("{}: {} tensors of {} numbers\n", file, read.tensors.size(), numbers);
  const auto network = read.metadata.find("network");
  if (network != read.metadata.end()) out += fmt::format("  network  {}\n", shown(network->second));
  std::vector<std::string> classes = classes_from(read.metadata);
  for (std::string& name : classes) name = shown(name);
  if (!classes.empty()) out += fmt::format("  classes  {}: {}\n", classes.size(), fmt::join(classes, ", "));
  const auto usage = usage_from(read.metadata, file);
  if (!usage) return out + "It does not say how images are prepared for it.\n";
  const std::string text = metadata_of(*usage).at("usage");
  return fmt::format("{}Images are prepared as [{}] of its run did. pipeline-run --predict IMAGES --weights {} uses this:\n\n{}",
                     out, usage->graph, file, text.substr(0, text.find("\n[document]")));
}

std::string list_tensors(const std::string& file) {
  std::string out;
  for (const ListedTensor& tensor : read_tensors(file).listed) {
    std::string line = JsonLine().add("name", tensor.name).add("type", tensor.type).text();
    line.pop_back();
    out += fmt::format("{},\"shape\":[{}]}}\n", line, fmt::join(tensor.shape.begin(), tensor.shape.end(), ","));
  }
  return out;
}

}  // namespace millrace

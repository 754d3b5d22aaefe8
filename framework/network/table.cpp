#include "network/table.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <vector>

namespace millrace {
namespace {

constexpr std::size_t kColumns = 5;
using Row = std::array<std::string, kColumns>;

std::string extents(const Size& size) { return fmt::format("{}x{}", size.height, size.width); }

std::string padding_text(const Padding& padding) {
  const auto [top, left, bottom, right] = padding;
  if (top == 0 && left == 0 && bottom == 0 && right == 0) return "";
  if (top == left && left == bottom && bottom == right) return fmt::format(", padding {}", top);
  return fmt::format(", padding {}/{}/{}/{}", top, left, bottom, right);
}

std::string stride_text(const Size& stride) {
  if (stride.height == 1 && stride.width == 1) return "";
  return stride.height == stride.width ? fmt::format(", stride {}", stride.height) : ", stride " + extents(stride);
}

// The op with what its line should say of its figures. Ops of plugins stand by their name alone.
std::string description(const Layer& layer) {
  if (layer.op == "conv") {
    const auto& conv = layer.as<ConvAttributes>();
    std::string text = fmt::format("conv {}{}{}", extents(conv.kernel), stride_text(conv.stride), padding_text(conv.padding));
    if (conv.dilation.height != 1 || conv.dilation.width != 1) text += ", dilation " + extents(conv.dilation);
    if (conv.groups != 1) text += fmt::format(", {} groups", conv.groups);
    return text;
  }
  if (layer.op == "max_pool" || layer.op == "average_pool") {
    const auto& pool = layer.as<PoolAttributes>();
    return fmt::format("{} {}{}{}", layer.op, extents(pool.kernel), stride_text(pool.stride), padding_text(pool.padding));
  }
  if (layer.op == "dropout") return fmt::format("dropout {}", layer.as<DropoutAttributes>().probability);
  if (layer.op == "scale") return fmt::format("scale {:.6g}", layer.as<ScaleAttributes>().factor);
  return layer.op;
}

std::string grouped(std::uint64_t number) {  // 11,689,512
  if (number < 1000) return std::to_string(number);
  return fmt::format("{},{:03}", grouped(number / 1000), number % 1000);
}

std::string count(std::uint64_t number) { return number == 0 ? "" : grouped(number); }

std::string line(const Row& row, const std::array<std::size_t, kColumns>& widths) {
  std::string text = fmt::format("{:<{}}  {:<{}}  {:>{}}  {:>{}}  {:>{}}", row[0], widths[0], row[1], widths[1], row[2],
                                 widths[2], row[3], widths[3], row[4], widths[4]);
  text.erase(text.find_last_not_of(' ') + 1);
  return text + "\n";
}

}  // namespace

std::string network_table(const Network& network) {
  std::vector<Row> rows = {{"layer", "op", "output", "parameters", "multiply-adds"}};
  rows.push_back(
      {"input", "", fmt::format("{}x{}x{}", network.input.channels, network.input.height, network.input.width), "", ""});
  std::uint64_t parameters = 0, frozen = 0, multiply_adds = 0;
  for (const Layer& layer : network.layers) {
    std::uint64_t own = 0;
    for (const int index : layer.parameters) {
      const Parameter& parameter = network.parameters[static_cast<std::size_t>(index)];
      if (parameter.statistic) continue;
      const auto elements = static_cast<std::uint64_t>(parameter.shape.elements());
      own += elements;
      if (!parameter.trainable) frozen += elements;
    }
    parameters += own;
    multiply_adds += layer.multiply_adds;
    rows.push_back({layer.name, description(layer), fmt::format("{}", fmt::join(layer.output.begin(), layer.output.end(), "x")),
                    count(own), count(layer.multiply_adds)});
  }
  rows.push_back({"total", "", "", grouped(parameters), grouped(multiply_adds)});

  std::array<std::size_t, kColumns> widths{};
  for (const Row& row : rows) {
    for (std::size_t i = 0; i < kColumns; ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  for (const Row& row : rows) text += line(row, widths);
  if (frozen > 0) text += fmt::format("{} of the parameters are not trained\n", grouped(frozen));
  return text;
}

}  // namespace millrace

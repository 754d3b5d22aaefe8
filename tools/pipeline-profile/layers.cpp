#include "layers.h"

#include <fmt/format.h>

#include <algorithm>

#include "common/text_table.h"

namespace millrace {
namespace {

constexpr double kLeastAbove = 1.005;  // relative to the roof, shown as 101 %

std::string giga(double number) { return number > 0 ? fmt::format("{:.3g}", number / 1e9) : std::string("-"); }

std::vector<LayerRow> timed(const std::vector<LayerTime>& times) {
  std::vector<LayerRow> rows;
  double total = 0;
  for (const LayerTime& time : times) {
    const auto passes = static_cast<double>(std::max<std::uint64_t>(time.passes, 1));
    LayerRow& row = rows.emplace_back();
    row.name = time.layer;
    row.detail = time.detail;
    row.forward = time.forward / passes;
    row.backward = time.backward / passes;
    total += row.forward + row.backward;
  }
  for (LayerRow& row : rows) row.share = total > 0 ? (row.forward + row.backward) / total : 0;
  return rows;
}

}  // namespace

LayerCost cost_of(const Network& network, const Layer& layer, std::size_t element_bytes) {
  const auto size = static_cast<double>(element_bytes);
  double inputs = 0, outputs = 0, weights = 0;
  for (const Shape& shape : layer.input_shapes) inputs += static_cast<double>(shape.elements());
  for (int port = 0; port < layer.output_count(); ++port) outputs += static_cast<double>(layer.output_of(port).elements());
  for (const int index : layer.parameters) {
    weights += static_cast<double>(network.parameters[static_cast<std::size_t>(index)].shape.elements());
  }
  const bool is_first = std::ranges::all_of(layer.inputs, [](const LayerPort& input) { return input == Network::kInput; });
  const double operations = 2 * static_cast<double>(layer.multiply_adds);
  LayerCost cost;
  cost.operations = operations;
  cost.weight_bytes = weights * size;
  cost.bytes = (inputs + outputs) * size + cost.weight_bytes;
  // The gradient of the weights costs as much as forward, and so does that of the input.
  cost.back_operations = (is_first ? 1 : 2) * operations;
  cost.back_bytes = (outputs + inputs + (is_first ? 0 : inputs)) * size + cost.weight_bytes;
  return cost;
}

std::vector<LayerRow> rows_of(const std::vector<LayerTime>& times, const Network& network, double samples,
                              std::size_t element_bytes, const Peaks& peaks) {
  std::vector<LayerRow> rows = timed(times);
  for (LayerRow& row : rows) {
    const auto layer = std::ranges::find(network.layers, row.name, &Layer::name);
    const double seconds = row.forward + row.backward;
    if (layer == network.layers.end() || seconds <= 0) continue;
    const LayerCost cost = cost_of(network, *layer, element_bytes);
    const bool trains = row.backward > 0;
    const double operations = samples * (cost.operations + (trains ? cost.back_operations : 0));
    const double bytes = samples * (cost.bytes - cost.weight_bytes + (trains ? cost.back_bytes - cost.weight_bytes : 0)) +
                         (trains ? 2 : 1) * cost.weight_bytes;
    row.operations = operations / seconds;
    row.bytes = bytes / seconds;
    if (peaks.operations > 0 && peaks.bytes > 0) {
      row.roof = std::max(operations / peaks.operations, bytes / peaks.bytes) / seconds;
    }
  }
  return rows;
}

std::string layer_table(std::vector<LayerRow> rows, std::size_t most) {
  const auto cost = [](const LayerRow& row) { return row.forward + row.backward; };
  double total = 0, highest = 0;
  for (const LayerRow& row : rows) total += cost(row);
  if (most > 0) {
    std::ranges::stable_sort(rows, std::greater(), cost);
    rows.resize(std::min(most, rows.size()));
  }
  TextTable table({"layer", ">forward ms", ">backward ms", ">share", ">GFLOP/s", ">GB/s", ">of the roof", "computed by"}, 0);
  for (const LayerRow& row : rows) {
    highest = std::max(highest, row.roof);
    table.row({row.name, fmt::format("{:.3f}", 1e3 * row.forward), fmt::format("{:.3f}", 1e3 * row.backward),
               fmt::format("{:.1f} %", 100 * row.share), giga(row.operations), giga(row.bytes),
               row.roof > 0 ? fmt::format("{:.0f} %", 100 * row.roof) : "-", row.detail});
  }
  table.row({"all layers", fmt::format("{:.3f}", 1e3 * total)});
  if (highest < kLeastAbove) return table.text();
  return table.text() +
         "above 100 % of the roof: caches held what the layer read, or other programs disturbed the measurement of the "
         "roof; measure again while this machine is quiet\n";
}

std::string layer_table(const std::vector<LayerTime>& times, std::size_t most) { return layer_table(timed(times), most); }

}  // namespace millrace

#include "normalisation/input.h"

#include <fmt/format.h>

#include <algorithm>

namespace millrace {

void InputParams::describe(ParamSet<InputParams>& set) {
  set.add("channels", &InputParams::channels).range(1, 4096).text("image channels: 3 for colour, 1 for grey");
  set.add("height", &InputParams::height).required().range(1, 1 << 16).unit("pixels").text("image height");
  set.add("width", &InputParams::width).required().range(1, 1 << 16).unit("pixels").text("image width");
  set.add("mean", &InputParams::mean).text("subtracted from each channel, after scaling pixels to 0 ... 1");
  set.add("deviation", &InputParams::deviation).range(1e-6).text("each channel is then divided by it");
}

InputParams read_input(const Value& table, const std::string& network, Diagnostics& errors) {
  ParamSet<InputParams> set;
  InputParams::describe(set);
  InputParams input = read_struct(set, table, "'input' of network '" + network + "'", errors);
  const auto per_channel = [&](const char* key, std::vector<double>& values, double otherwise) {
    if (values.empty()) values.assign(static_cast<std::size_t>(input.channels), otherwise);
    if (static_cast<std::int64_t>(values.size()) != input.channels) {
      return errors.add(table.find(key)->at(), fmt::format("'{}' needs one figure for each of the {} channels, found {}", key,
                                                           input.channels, values.size()));
    }
    const double largest = *std::ranges::max_element(values);
    if (largest <= 1) return;
    errors.add(table.find(key)->at(),
               fmt::format("'{}' is of pixels from 0 to 1, found {:g}: divide figures of 0 ... 255 by 255", key, largest));
  };
  per_channel("mean", input.mean, 0);
  per_channel("deviation", input.deviation, 1);
  return input;
}

}  // namespace millrace

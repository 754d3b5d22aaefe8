#include "grad_cam.h"

#include <algorithm>
#include <cmath>

#include "millrace/backend/fusion.h"
#include "millrace/error.h"

namespace millrace {

void grad_cam(std::span<const float> features, std::span<const float> gradient, HeatMap& map) {
  const auto places = static_cast<std::size_t>(map.height) * static_cast<std::size_t>(map.width);
  std::vector<double> sums(places);
  for (std::size_t begin = 0; begin < features.size(); begin += places) {
    double weight = 0;
    for (std::size_t i = begin; i < begin + places; ++i) weight += static_cast<double>(gradient[i]);
    weight /= static_cast<double>(places);
    for (std::size_t i = 0; i < places; ++i) sums[i] += weight * static_cast<double>(features[begin + i]);
  }
  map.values.resize(places);
  for (std::size_t i = 0; i < places; ++i) map.values[i] = static_cast<float>(std::max(sums[i], 0.0));
}

float value_at(const HeatMap& map, double x, double y) {
  if (x < -0.5 || y < -0.5 || x > map.width - 0.5 || y > map.height - 0.5) return 0;
  x = std::clamp(x, 0.0, map.width - 1.0);
  y = std::clamp(y, 0.0, map.height - 1.0);
  const int left = static_cast<int>(x), upper = static_cast<int>(y);
  const int right = std::min(left + 1, map.width - 1), lower = std::min(upper + 1, map.height - 1);
  const double to_right = x - left, down = y - upper;
  const auto at = [&](int row, int column) {
    return static_cast<double>(
        map.values[static_cast<std::size_t>(row) * static_cast<std::size_t>(map.width) + static_cast<std::size_t>(column)]);
  };
  const double above = (1 - to_right) * at(upper, left) + to_right * at(upper, right);
  const double below = (1 - to_right) * at(lower, left) + to_right * at(lower, right);
  return static_cast<float>((1 - down) * above + down * below);
}

std::array<double, 3> heat_colour(double heat) {
  const auto ramp = [heat](double middle) { return 255 * std::clamp(1.5 - std::abs(4 * heat - middle), 0.0, 1.0); };
  return {ramp(3), ramp(2), ramp(1)};
}

void lay_heat_over(const HeatMap& map, const AffineMap& to_map, double opacity, int height, int width,
                   std::span<std::uint8_t> picture) {
  const auto largest = static_cast<double>(*std::max_element(map.values.begin(), map.values.end()));
  if (!(largest > 0) || !std::isfinite(largest)) return;
  std::size_t next = 0;
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x, next += 3) {
      const double column = to_map.xx * x + to_map.xy * y + to_map.x0, row = to_map.yx * x + to_map.yy * y + to_map.y0;
      const double heat = static_cast<double>(value_at(map, column, row)) / largest, share = opacity * heat;
      const std::array<double, 3> colour = heat_colour(heat);
      for (std::size_t c = 0; c < 3; ++c) {
        std::uint8_t& value = picture[next + c];
        value = static_cast<std::uint8_t>(std::lround(share * colour[c] + (1 - share) * value));
      }
    }
  }
}

LayerPort default_features(const Network& network) {
  const std::vector<bool> leads = layers_for(network, {});
  const Layer* convolution = nullptr;
  for (std::size_t i = 0; i < network.layers.size(); ++i) {
    const Layer& layer = network.layers[i];
    if (leads[i] && layer.op == "conv" && layer.output[1] * layer.output[2] > 1) convolution = &layer;
  }
  if (convolution == nullptr) {
    fail(ErrorKind::usage, "features: network '{}' has no convolution whose output is larger than one pixel: name a layer",
         network.name);
  }
  const auto is_as_large = [&](std::size_t i) {
    const Shape& shape = network.layers[i].output;
    return leads[i] && shape.rank() == 3 && shape[1] == convolution->output[1] && shape[2] == convolution->output[2];
  };
  std::size_t last = network.layers.size() - 1;
  while (!is_as_large(last)) --last;
  return static_cast<int>(last);
}

}  // namespace millrace

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "millrace/backend/network.h"
#include "millrace/sample.h"

namespace millrace {

// A map of one image, (height, width).
struct HeatMap {
  int height = 0, width = 0;
  std::vector<float> values;
};

// Grad-CAM (Selvaraju et al. 2017, arXiv 1610.02391, equations 1 and 2): ReLU of the sum of all channels of `features`, each
// weighted by the mean over all places of the score's gradient by it. Both are (C, height, width), with the size of `map`, whose
// values are written.
void grad_cam(std::span<const float> features, std::span<const float> gradient, HeatMap& map);

// The map's bilinear value between its pixels; the edge extends by half a pixel. 0 further outside.
float value_at(const HeatMap& map, double x, double y);

// Dark red for 1, yellow for 0.625, blue for 0.125, as in the colour map "jet".
std::array<double, 3> heat_colour(double heat);

// Blends colours over a picture, (height, width, 3): with weight opacity * h at a place of heat h. A heat is a value of the map
// over the map's largest. `to_map`: from pixels of the picture to pixels of the map.
void lay_heat_over(const HeatMap& map, const AffineMap& to_map, double opacity, int height, int width,
                   std::span<std::uint8_t> picture);

// The default features: the output of the last layer whose map is as large as the last convolution's, among layers that the
// network's result depends on. Throws Error(usage) for a network without such a convolution.
LayerPort default_features(const Network& network);

}  // namespace millrace

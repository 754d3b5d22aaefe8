#include "shape_image.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numbers>

namespace millrace {

namespace {

constexpr double kPi = std::numbers::pi;

// Position of the shape in pixels, and its appearance.
struct Scene {
  double x, y, radius, angle;
  double detail;  // 0 ... 1: how coarse a texture is, how thick a ring, ...
  bool mirrored;
};

bool in_star(double x, double y) {
  constexpr double kOuter = 1.1, kInner = 0.45, kSector = kPi / 5;
  const double radius = std::hypot(x, y);
  const double turn = std::abs(std::remainder(std::atan2(y, x), 2 * kSector));  // from the star's nearest tip
  const double u = radius * std::cos(turn), v = radius * std::sin(turn);
  const double inner_u = kInner * std::cos(kSector), inner_v = kInner * std::sin(kSector);
  return (inner_u - kOuter) * v - inner_v * (u - kOuter) > 0;  // on the inner side of the edge
}

bool in_triangle(double x, double y) {
  for (int side = 0; side < 3; ++side) {
    const double direction = kPi / 2 + 2 * kPi * side / 3;
    if (x * std::cos(direction) + y * std::sin(direction) > 0.55) return false;
  }
  return true;
}

bool odd(double value) { return (static_cast<long>(std::floor(value)) & 1) != 0; }

// True if a point is inside the shape; it is about one unit large, textures are unbounded.
bool inside(int shape, double x, double y, double detail) {
  const double radius = std::hypot(x, y);
  const double period = 0.35 + 0.25 * detail;
  switch (shape) {
    case 0: return odd(x / period) != odd(y / period);
    case 1: return radius < 0.9;
    case 2: return std::min(std::abs(x), std::abs(y)) < 0.22 + 0.1 * detail && std::max(std::abs(x), std::abs(y)) < 1;
    case 3: {
      const double cell = 1.6 * period;
      return std::hypot(std::remainder(x, cell), std::remainder(y, cell)) < 0.33 * cell;
    }
    case 4: return radius < 1 && radius > 0.5 + 0.15 * detail;
    case 5: {
      const double turns = radius / (0.5 + 0.1 * detail) - std::atan2(y, x) / (2 * kPi);
      return radius < 1.15 && turns - std::floor(turns) < 0.5;
    }
    case 6: return std::max(std::abs(x), std::abs(y)) < 0.8;
    case 7: return in_star(x, y);
    case 8: return odd(x / period);
    default: return in_triangle(x, y);
  }
}

// The fraction of a pixel that the shape covers, from 4 x 4 points.
double coverage(int shape, const Scene& scene, int row, int column) {
  constexpr int kPoints = 4;
  const double sine = std::sin(scene.angle), cosine = std::cos(scene.angle);
  int hits = 0;
  for (int point = 0; point < kPoints * kPoints; ++point) {
    const double dx = (column + (point % kPoints + 0.5) / kPoints - scene.x) / scene.radius;
    const double dy = (row + (point / kPoints + 0.5) / kPoints - scene.y) / scene.radius;
    const double x = cosine * dx + sine * dy;
    hits += inside(shape, scene.mirrored ? -x : x, cosine * dy - sine * dx, scene.detail);
  }
  return static_cast<double>(hits) / (kPoints * kPoints);
}

using Shade = std::array<double, 3>;

Shade draw_colour(Draw& draw) { return {draw.uniform(0, 255), draw.uniform(0, 255), draw.uniform(0, 255)}; }

double distance(const Shade& a, const Shade& b) {
  return std::sqrt((a[0] - b[0]) * (a[0] - b[0]) + (a[1] - b[1]) * (a[1] - b[1]) + (a[2] - b[2]) * (a[2] - b[2]));
}

// One Gaussian pass along one direction; edge pixels are repeated.
void blur(std::vector<double>& mask, int size, double deviation, int step, int across) {
  constexpr int kReach = 3;
  double weights[2 * kReach + 1], total = 0;
  for (int i = -kReach; i <= kReach; ++i) total += weights[i + kReach] = std::exp(-i * i / (2 * deviation * deviation));
  std::vector<double> line(static_cast<std::size_t>(size));
  for (int row = 0; row < size; ++row) {
    double* const start = mask.data() + row * across;
    for (int i = 0; i < size; ++i) line[static_cast<std::size_t>(i)] = start[i * step];
    for (int i = 0; i < size; ++i) {
      double sum = 0;
      for (int j = -kReach; j <= kReach; ++j)
        sum += weights[j + kReach] * line[static_cast<std::size_t>(std::clamp(i + j, 0, size - 1))];
      start[i * step] = sum / total;
    }
  }
}

}  // namespace

std::vector<std::uint8_t> draw_shape(int shape, int size, Draw& draw) {
  constexpr double kLeastContrast = 90;
  Scene scene{};
  scene.radius = size * draw.uniform(0.27, 0.42);
  const double room = std::max(0.0, size / 2.0 - 0.9 * scene.radius);
  scene.x = size / 2.0 + draw.uniform(-room, room);
  scene.y = size / 2.0 + draw.uniform(-room, room);
  scene.angle = draw.uniform(0, 2 * kPi);
  scene.detail = draw.uniform();
  scene.mirrored = draw.chance(0.5);
  Shade front = draw_colour(draw), back = draw_colour(draw);
  while (distance(front, back) < kLeastContrast) {
    front = draw_colour(draw);
    back = draw_colour(draw);
  }
  const double shade_x = draw.uniform(-30, 30), shade_y = draw.uniform(-30, 30);  // across the whole image
  const double softness = draw.uniform(0.2, 0.8), noise = draw.uniform(0, 12);

  std::vector<double> mask(static_cast<std::size_t>(size) * static_cast<std::size_t>(size));
  for (int row = 0; row < size; ++row) {
    for (int column = 0; column < size; ++column)
      mask[static_cast<std::size_t>(row * size + column)] = coverage(shape, scene, row, column);
  }
  blur(mask, size, softness, 1, size);
  blur(mask, size, softness, size, 1);

  std::vector<std::uint8_t> pixels;
  pixels.reserve(3 * mask.size());
  for (std::size_t i = 0; i < mask.size(); ++i) {
    const double column = static_cast<double>(i % static_cast<std::size_t>(size)) / size - 0.5;
    const double row = static_cast<double>(i / static_cast<std::size_t>(size)) / size - 0.5;
    for (std::size_t c = 0; c < 3; ++c) {
      const double value = back[c] + mask[i] * (front[c] - back[c]) + shade_x * column + shade_y * row + noise * draw.normal();
      pixels.push_back(static_cast<std::uint8_t>(std::lround(std::clamp(value, 0.0, 255.0))));
    }
  }
  return pixels;
}

}  // namespace millrace

#include "image_quality.h"

#include <array>
#include <cmath>
#include <cstddef>

namespace millrace {
namespace {

constexpr double kPeak = 255;
constexpr auto kWindow = static_cast<std::size_t>(kSimilarityWindow);

std::array<double, kWindow> gaussian() {
  constexpr double kDeviation = 1.5;
  std::array<double, kWindow> weights{};
  double sum = 0;
  for (std::size_t i = 0; i < kWindow; ++i) {
    const double far = static_cast<double>(i) - static_cast<double>(kWindow / 2);
    sum += weights[i] = std::exp(-far * far / (2 * kDeviation * kDeviation));
  }
  for (double& weight : weights) weight /= sum;
  return weights;
}

// The weighted means of f(place) over all windows within the image.
template <class F>
std::vector<double> window_means(int height, int width, const F& f) {
  static const std::array<double, kWindow> kWeights = gaussian();
  const auto rows = static_cast<std::size_t>(height), columns = static_cast<std::size_t>(width);
  const std::size_t across = columns - kWindow + 1, down = rows - kWindow + 1;
  std::vector<double> along(rows * across, 0), means(down * across, 0);
  for (std::size_t row = 0; row < rows; ++row) {
    for (std::size_t column = 0; column < across; ++column) {
      for (std::size_t i = 0; i < kWindow; ++i) along[row * across + column] += kWeights[i] * f(row * columns + column + i);
    }
  }
  for (std::size_t row = 0; row < down; ++row) {
    for (std::size_t i = 0; i < kWindow; ++i) {
      const double* const from = along.data() + (row + i) * across;
      for (std::size_t column = 0; column < across; ++column) means[row * across + column] += kWeights[i] * from[column];
    }
  }
  return means;
}

double similarity(const std::vector<double>& x, const std::vector<double>& y, int height, int width) {
  constexpr double c1 = (0.01 * kPeak) * (0.01 * kPeak), c2 = (0.03 * kPeak) * (0.03 * kPeak);
  const auto means = [&](const auto& f) { return window_means(height, width, f); };
  const std::vector<double> mean_x = means([&](std::size_t i) { return x[i]; });
  const std::vector<double> mean_y = means([&](std::size_t i) { return y[i]; });
  const std::vector<double> xx = means([&](std::size_t i) { return x[i] * x[i]; });
  const std::vector<double> yy = means([&](std::size_t i) { return y[i] * y[i]; });
  const std::vector<double> xy = means([&](std::size_t i) { return x[i] * y[i]; });
  double sum = 0;
  for (std::size_t i = 0; i < xx.size(); ++i) {
    const double product = mean_x[i] * mean_y[i], squares = mean_x[i] * mean_x[i] + mean_y[i] * mean_y[i];
    sum += (2 * product + c1) * (2 * (xy[i] - product) + c2) / ((squares + c1) * (xx[i] + yy[i] - squares + c2));
  }
  return sum / static_cast<double>(xx.size());
}

}  // namespace

Planes planes_of(const ImageView& image, bool luminance, int border) {
  Planes planes{image.shape.height - 2 * border, image.shape.width - 2 * border, {}};
  const int channels = image.shape.channels;
  const bool converts = luminance && channels == 3;
  planes.channels.resize(static_cast<std::size_t>(converts ? 1 : channels));
  for (int row = border; row < border + planes.height; ++row) {
    for (int column = border; column < border + planes.width; ++column) {
      const std::uint8_t* const pixel = image.data + static_cast<std::ptrdiff_t>(row * image.shape.width + column) * channels;
      if (converts) {
        planes.channels[0].push_back(16 + (65.481 * pixel[0] + 128.553 * pixel[1] + 24.966 * pixel[2]) / 255);
        continue;
      }
      for (std::size_t c = 0; c < planes.channels.size(); ++c) planes.channels[c].push_back(pixel[c]);
    }
  }
  return planes;
}

double peak_signal_to_noise_ratio(const Planes& a, const Planes& b) {
  double squares = 0, count = 0;
  for (std::size_t c = 0; c < a.channels.size(); ++c) {
    for (std::size_t i = 0; i < a.channels[c].size(); ++i) {
      const double difference = a.channels[c][i] - b.channels[c][i];
      squares += difference * difference;
    }
    count += static_cast<double>(a.channels[c].size());
  }
  return 10 * std::log10(kPeak * kPeak * count / squares);
}

double structural_similarity(const Planes& a, const Planes& b) {
  double sum = 0;
  for (std::size_t c = 0; c < a.channels.size(); ++c) sum += similarity(a.channels[c], b.channels[c], a.height, a.width);
  return sum / static_cast<double>(a.channels.size());
}

}  // namespace millrace

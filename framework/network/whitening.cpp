#include "network/whitening.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <numeric>

#include "millrace/error.h"

namespace millrace {
namespace {

constexpr int kMaxSweeps = 60;  // convergence is quadratic: about six are usual

// A square matrix by rows.
class Matrix {
 public:
  Matrix(std::vector<double>& values, std::int64_t n) : values_(values), n_(n) {}
  double& operator()(std::int64_t row, std::int64_t column) { return values_[static_cast<std::size_t>(row * n_ + column)]; }

 private:
  std::vector<double>& values_;
  std::int64_t n_;
};

double off_diagonal(Matrix& a, std::int64_t n) {
  double sum = 0;
  for (std::int64_t p = 0; p < n; ++p) {
    for (std::int64_t q = p + 1; q < n; ++q) sum += a(p, q) * a(p, q);
  }
  return std::sqrt(2 * sum);
}

// Zeroes a(p, q) by rotating rows and columns p and q, and rotates the rows of v accordingly.
void rotate(Matrix& a, Matrix& v, std::int64_t n, std::int64_t p, std::int64_t q) {
  if (a(p, q) == 0) return;
  const double theta = (a(q, q) - a(p, p)) / (2 * a(p, q));
  const double t = std::copysign(1 / (std::abs(theta) + std::hypot(1, theta)), theta);  // tan of the smaller angle
  const double c = 1 / std::hypot(1, t), s = t * c;
  const auto turn = [c, s](double& x, double& y) {
    const double before = x;
    x = c * before - s * y;
    y = s * before + c * y;
  };
  for (std::int64_t k = 0; k < n; ++k) turn(a(k, p), a(k, q));
  for (std::int64_t k = 0; k < n; ++k) turn(a(p, k), a(q, k));
  for (std::int64_t k = 0; k < n; ++k) turn(v(p, k), v(q, k));
  a(p, q) = a(q, p) = 0;
}

}  // namespace

Eigensystem symmetric_eigensystem(std::vector<double> matrix, std::int64_t n) {
  assert(static_cast<std::int64_t>(matrix.size()) == n * n);
  std::vector<double> rows(matrix.size(), 0.0);
  Matrix a(matrix, n), v(rows, n);
  double norm = 0;
  for (const double value : matrix) norm += value * value;
  const double small = 1e-15 * std::sqrt(norm);
  for (std::int64_t i = 0; i < n; ++i) v(i, i) = 1;
  for (int sweep = 0; sweep < kMaxSweeps && off_diagonal(a, n) > small; ++sweep) {
    for (std::int64_t p = 0; p < n; ++p) {
      for (std::int64_t q = p + 1; q < n; ++q) rotate(a, v, n, p, q);
    }
  }

  std::vector<std::int64_t> order(static_cast<std::size_t>(n));
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](std::int64_t i, std::int64_t j) { return a(i, i) > a(j, j); });
  Eigensystem result;
  for (const std::int64_t i : order) {
    result.values.push_back(a(i, i));
    const auto row = rows.begin() + i * n;
    const double largest = *std::max_element(row, row + n, [](double x, double y) { return std::abs(x) < std::abs(y); });
    for (std::int64_t k = 0; k < n; ++k) result.vectors.push_back(largest < 0 ? -v(i, k) : v(i, k));
  }
  return result;
}

PatchStatistics::PatchStatistics(const Shape& weights) {
  const std::int64_t values = weights.rank() == 4 ? weights[1] * weights[2] * weights[3] : 0;
  if (values == 0 || weights[0] != 2 * values) {
    fail(ErrorKind::usage, "the initialiser 'whiten' makes two filters for each value of a patch: weights of {} need {} filters",
         to_string(weights), 2 * values);
  }
  channels_ = weights[1];
  kernel_height_ = weights[2];
  kernel_width_ = weights[3];
  values_ = values;
  sums_.assign(static_cast<std::size_t>(values * values), 0.0);
}

void PatchStatistics::add(std::span<const float> image, std::int64_t height, std::int64_t width) {
  assert(static_cast<std::int64_t>(image.size()) == channels_ * height * width);
  assert(height >= kernel_height_ && width >= kernel_width_);
  std::vector<std::int64_t> offsets;  // of a patch's values relative to its first pixel
  for (std::int64_t c = 0; c < channels_; ++c) {
    for (std::int64_t y = 0; y < kernel_height_; ++y) {
      for (std::int64_t x = 0; x < kernel_width_; ++x) offsets.push_back((c * height + y) * width + x);
    }
  }
  std::vector<double> patch(offsets.size());
  for (std::int64_t y = 0; y + kernel_height_ <= height; ++y) {
    for (std::int64_t x = 0; x + kernel_width_ <= width; ++x) {
      for (std::size_t i = 0; i < patch.size(); ++i) {
        patch[i] = static_cast<double>(image[static_cast<std::size_t>(y * width + x + offsets[i])]);
      }
      for (std::size_t i = 0; i < patch.size(); ++i) {
        for (std::size_t j = i; j < patch.size(); ++j) sums_[i * patch.size() + j] += patch[i] * patch[j];
      }
      ++patches_;
    }
  }
}

std::vector<double> PatchStatistics::second_moments() const {
  assert(patches_ > 0);
  const auto n = static_cast<std::size_t>(values_);
  std::vector<double> moments(n * n);
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = i; j < n; ++j)
      moments[i * n + j] = moments[j * n + i] = sums_[i * n + j] / static_cast<double>(patches_);
  }
  return moments;
}

std::vector<float> PatchStatistics::filters(double epsilon) const {
  const Eigensystem system = symmetric_eigensystem(second_moments(), values_);
  const auto n = static_cast<std::size_t>(values_);
  std::vector<float> filters(2 * n * n);
  for (std::size_t i = 0; i < n; ++i) {
    const double factor = 1 / std::sqrt(std::max(system.values[i], 0.0) + epsilon);  // rounding may leave -1e-18 for 0
    for (std::size_t k = 0; k < n; ++k) {
      const auto value = static_cast<float>(system.vectors[i * n + k] * factor);
      filters[i * n + k] = value;
      filters[(n + i) * n + k] = -value;
    }
  }
  return filters;
}

}  // namespace millrace

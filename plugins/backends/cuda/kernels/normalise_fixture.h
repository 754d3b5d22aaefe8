// A batch normalisation's maps and their expected values, for this folder's tests.
#pragma once

#include <cmath>
#include <span>
#include <vector>

#include "kernels_fixture.h"
#include "normalise.h"

namespace millrace::cuda {

inline constexpr float kEpsilon = 1e-3F;

// A complete batch normalisation and its results, in double.
template <class T>
struct Norm {
  Norm(std::int64_t rows, std::int64_t channels, double centre = 0.5)
      : x(rows, channels),
        residual(rows, channels),
        y(rows, channels),
        dy(rows, channels),
        dx(rows, channels),
        scale(1, channels),
        shift(1, channels),
        mean(1, channels),
        variance(1, channels),
        factor(1, channels),
        d_scale(1, channels),
        d_shift(1, channels),
        partial(partial_bytes(rows, x.row_packs(), 2) / sizeof(float)),
        positive(static_cast<std::size_t>(rows * x.row_packs())),
        groups(group_bytes(rows, x.row_packs(), 2) / sizeof(double)),
        tickets(ticket_bytes(x.row_packs()) / sizeof(std::uint32_t)) {
    x.fill(1, centre, 1.5);
    residual.fill(2);
    dy.fill(3);
    scale.fill(4, 1, 0.2);
    shift.fill(5, 0, 0.5);
  }

  double count() const { return static_cast<double>(x.rows()); }
  double mean_of(std::int64_t c) const {
    double sum = 0;
    for (std::int64_t row = 0; row < x.rows(); ++row) sum += x.at(row, c);
    return sum / count();
  }
  double variance_of(std::int64_t c) const {
    double sum = 0;
    const double average = mean_of(c);
    for (std::int64_t row = 0; row < x.rows(); ++row) sum += (x.at(row, c) - average) * (x.at(row, c) - average);
    return sum / count();
  }
  double x_hat(std::int64_t row, std::int64_t c) const {
    return (x.at(row, c) - mean.at(0, c)) / std::sqrt(variance.at(0, c) + static_cast<double>(kEpsilon));
  }
  double pre(std::int64_t row, std::int64_t c, bool with_residual) const {
    return x_hat(row, c) * scale.at(0, c) + shift.at(0, c) + (with_residual ? residual.at(row, c) : 0);
  }

  void find_statistics() {
    run_on_host(Moments<T>{x.data(), x.rows(), x.row_packs(), partial.data()});
    run_on_host(finish());
  }
  FinishMoments<T> finish() {
    FinishMoments<T> element;
    element.x = x.data();
    element.partial = partial.data();
    element.rows = x.rows();
    element.packs = x.row_packs();
    element.epsilon = kEpsilon;
    element.momentum = 0.25F;
    element.scale = scale.data();
    element.mean = mean.data();
    element.variance = variance.data();
    element.factor = factor.data();
    return element;
  }
  Normalise<T> forward(Activation activation) {
    return {x.data(), nullptr, y.data(), mean.data(), factor.data(), shift.data(), x.rows(), x.row_packs(), activation};
  }
  NormaliseBackwardSums<T> sums(Activation activation) {
    NormaliseBackwardSums<T> element;
    element.x = x.data();
    element.dy = dy.data();
    element.mean = mean.data();
    element.factor = factor.data();
    element.shift = shift.data();
    element.rows = x.rows();
    element.packs = x.row_packs();
    element.activation = activation;
    element.partial = partial.data();
    return element;
  }
  FinishSums finish_sums() {
    FinishSums element{partial.data(), chunks_of(x.rows(), x.row_packs()), x.pitch(), 2, {d_shift.data(), d_scale.data()}};
    element.variance = variance.data();
    element.epsilon = kEpsilon;
    return element;
  }
  NormaliseBackward<T> backward(Activation activation) {
    NormaliseBackward<T> element;
    element.x = x.data();
    element.dy = dy.data();
    element.dx = dx.data();
    element.mean = mean.data();
    element.variance = variance.data();
    element.factor = factor.data();
    element.shift = shift.data();
    element.d_shift = d_shift.data();
    element.d_scale = d_scale.data();
    element.epsilon = kEpsilon;
    element.rows = x.rows();
    element.packs = x.row_packs();
    element.activation = activation;
    return element;
  }
  std::vector<std::span<std::byte>> memory() {
    return {x.bytes(),         residual.bytes(),   y.bytes(),        dy.bytes(),       dx.bytes(),      scale.bytes(),
            shift.bytes(),     mean.bytes(),       variance.bytes(), factor.bytes(),   d_scale.bytes(), d_shift.bytes(),
            bytes_of(partial), bytes_of(positive), bytes_of(groups), bytes_of(tickets)};
  }
  LastBlock last() { return {tickets.data(), groups.data()}; }

  TestMap<T> x, residual, y, dy, dx;
  TestMap<float> scale, shift, mean, variance, factor, d_scale, d_shift;
  std::vector<float> partial;
  std::vector<std::uint8_t> positive;
  std::vector<double> groups;
  std::vector<std::uint32_t> tickets;
};

}  // namespace millrace::cuda

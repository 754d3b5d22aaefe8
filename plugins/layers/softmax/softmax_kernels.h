#pragma once

#include "millrace/kernels/kernel_math.h"

namespace millrace::layers {

// x -> y
struct SoftmaxKernel {
  static constexpr int kReads = 1, kWrites = 1;
  template <class Row>
  MILLRACE_KERNEL void operator()(Row& row) const {
    const float largest = row.largest([&](auto c) { return row.in(0, c); });  // prevents overflow of the exponentials
    const double all = row.sum([&](auto c) { return static_cast<double>(math::exp(row.in(0, c) - largest)); });
    const float sum = static_cast<float>(all);
    row.each([&](auto c) { row.out(0, c, math::exp(row.in(0, c) - largest) / sum); });
  }
};

// y, dy -> dx = y * (dy - sum of (y * dy))
struct SoftmaxGradient {
  static constexpr int kReads = 2, kWrites = 1;
  template <class Row>
  MILLRACE_KERNEL void operator()(Row& row) const {
    const double all = row.sum([&](auto c) { return static_cast<double>(row.in(0, c)) * static_cast<double>(row.in(1, c)); });
    const float sum = static_cast<float>(all);
    row.each([&](auto c) { row.out(0, c, row.in(0, c) * (row.in(1, c) - sum)); });
  }
};

MILLRACE_KERNELS(SoftmaxKernel, SoftmaxGradient)

}  // namespace millrace::layers

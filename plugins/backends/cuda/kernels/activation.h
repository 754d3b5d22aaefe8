// ReLU and GELU, alone and after a bias.
#pragma once

#include <math.h>

#include <type_traits>

#include "millrace/backend/activation.h"
#include "portable.h"

namespace millrace::cuda {

using millrace::Activation;

inline constexpr float kRootOfHalf = 0.707106781F, kInverseRootOfTwoPi = 0.398942280F;

MILLRACE_HD float activate(Activation kind, float x) {
  if (kind == Activation::relu) return x < 0 ? 0.0F : x;  // NaN stays NaN
  if (kind == Activation::gelu) return 0.5F * x * (1.0F + erff(x * kRootOfHalf));
  return x;
}

// The derivative at pre-activation x. For ReLU also valid at its output, which has the same sign.
MILLRACE_HD float activation_slope(Activation kind, float x) {
  if (kind == Activation::relu) return x > 0 ? 1.0F : 0.0F;
  if (kind == Activation::gelu) return 0.5F * (1.0F + erff(x * kRootOfHalf)) + x * kInverseRootOfTwoPi * expf(-0.5F * x * x);
  return 1.0F;
}

// use(kind) with the kind as a constant (std::integral_constant), for code that must not check it in each row.
template <class Use>
auto with_activation(Activation kind, const Use& use) {
  switch (kind) {
    case Activation::relu: return use(std::integral_constant<Activation, Activation::relu>());
    case Activation::gelu: return use(std::integral_constant<Activation, Activation::gelu>());
    default: return use(std::integral_constant<Activation, Activation::none>());
  }
}

// A pack in place; and gradient *= slope(before). The kind is checked once for all eight.
MILLRACE_HD void activate(Activation kind, float (&values)[kPack]) {
  if (kind == Activation::relu) {
    MILLRACE_UNROLL for (int k = 0; k < kPack; ++k) values[k] = activate(Activation::relu, values[k]);
  } else if (kind == Activation::gelu) {
    MILLRACE_UNROLL for (int k = 0; k < kPack; ++k) values[k] = activate(Activation::gelu, values[k]);
  }
}
MILLRACE_HD void multiply_by_slope(Activation kind, const float (&before)[kPack], float (&gradient)[kPack]) {
  if (kind == Activation::relu) {
    MILLRACE_UNROLL for (int k = 0; k < kPack; ++k) gradient[k] *= activation_slope(Activation::relu, before[k]);
  } else if (kind == Activation::gelu) {
    MILLRACE_UNROLL for (int k = 0; k < kPack; ++k) gradient[k] *= activation_slope(Activation::gelu, before[k]);
  }
}

// y = activation(x). y may be x.
template <class T>
struct Activate {
  static constexpr Form kForm = Form::each;
  static constexpr const char* kName = "activate";
  const T* x = nullptr;
  T* y = nullptr;
  std::int64_t packs = 0;
  Activation kind = Activation::relu;

  std::int64_t size() const { return packs; }
  MILLRACE_HD void operator()(std::int64_t i) const {
    float values[kPack];
    load(x + i * kPack, values);
    activate(kind, values);
    store(y + i * kPack, values);
  }
  template <class Visitor>
  void accesses(Visitor& v) const {
    visit_read(v, x, packs * kPack);
    visit_write(v, y, packs * kPack);
  }
};

// dx = dy * activation'(from), added to dx if requested. from: the output for ReLU, the input for GELU. dx may be dy.
template <class T>
struct ActivateBackward {
  static constexpr Form kForm = Form::each;
  static constexpr const char* kName = "activate backward";
  const T *from = nullptr, *dy = nullptr;
  T* dx = nullptr;
  std::int64_t packs = 0;
  Activation kind = Activation::relu;
  bool add = false;

  std::int64_t size() const { return packs; }
  MILLRACE_HD void operator()(std::int64_t i) const {
    float before[kPack], gradient[kPack];
    load(from + i * kPack, before);
    load(dy + i * kPack, gradient);
    multiply_by_slope(kind, before, gradient);
    store(dx + i * kPack, gradient, add);
  }
  template <class Visitor>
  void accesses(Visitor& v) const {
    visit_read(v, from, packs * kPack);
    visit_read(v, dy, packs * kPack);
    visit_result(v, dx, packs * kPack, add);
  }
};

// y = activation(y + bias): for a library's convolution or product that does not fuse it.
template <class T>
struct BiasActivate {
  static constexpr Form kForm = Form::each;
  static constexpr const char* kName = "bias and activation";
  T* y = nullptr;               // (rows, row_packs * 8)
  const float* bias = nullptr;  // (row_packs * 8); null: none
  std::int64_t rows = 0, row_packs = 0;
  Activation kind = Activation::none;

  std::int64_t size() const { return rows * row_packs; }
  MILLRACE_HD void operator()(std::int64_t i) const {
    float values[kPack];
    load(y + i * kPack, values);
    if (bias != nullptr) {
      float shift[kPack];
      load_constant(bias + divide(i, row_packs).remainder * kPack, shift);
      MILLRACE_UNROLL for (int k = 0; k < kPack; ++k) values[k] += shift[k];
    }
    activate(kind, values);
    store(y + i * kPack, values);
  }
  template <class Visitor>
  void accesses(Visitor& v) const {
    visit_read(v, bias, row_packs * kPack);
    visit_result(v, y, size() * kPack, true);
  }
};

}  // namespace millrace::cuda

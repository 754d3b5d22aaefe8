// Kernels: the norm of a step's gradients and the resulting factor; bounds of each gradient.
#pragma once

#include <math.h>

#include <cstdint>
#include <vector>

#include "millrace/kernels/kernel.h"

namespace millrace {

inline constexpr std::int64_t kChunkOfGradients = 32768;
constexpr std::int64_t chunks_of_gradients(std::int64_t elements) {
  return (elements + kChunkOfGradients - 1) / kChunkOfGradients;
}

// The sum of squares of one chunk, times the square of `scale`, in double, in an order that depends on the number of elements
// alone.
struct SumOfSquares {
  static constexpr Form kForm = Form::groups;
  static constexpr int kThreads = 256;
  static constexpr int kLanes = 8;  // sums kept apart by one thread
  static constexpr const char* kName = "squares of gradients";
  const float* gradients = nullptr;
  const float* scale = nullptr;  // null: 1
  double* squares = nullptr;     // (chunks), written
  std::int64_t elements = 0;

  std::int64_t size() const { return chunks_of_gradients(elements); }
  template <class Group>
  MILLRACE_KERNEL void operator()(const Group& group, std::int64_t chunk) const {
    const float* const values = gradients + chunk * kChunkOfGradients;
    const std::int64_t left = elements - chunk * kChunkOfGradients, count = left < kChunkOfGradients ? left : kChunkOfGradients;
    const std::int64_t whole = count / kLanes;
    double sums[kLanes] = {};
    for (std::int64_t i = group.lane(); i < whole; i += group.size()) {
      MILLRACE_UNROLL for (int k = 0; k < kLanes; ++k) sums[k] += square(values[i * kLanes + k]);
    }
    double total = 0;
    MILLRACE_UNROLL for (int k = 0; k < kLanes; ++k) total += sums[k];
    for (std::int64_t i = whole * kLanes + group.lane(); i < count; i += group.size()) total += square(values[i]);
    total = group.sum(total);
    if (group.lane() == 0) squares[chunk] = scale == nullptr ? total : total * square(*scale);
  }
  std::vector<MemoryUse> uses() const {
    std::vector<MemoryUse> all = {{gradients, static_cast<std::size_t>(elements) * sizeof(float), false},
                                  {squares, static_cast<std::size_t>(size()) * sizeof(double), true}};
    if (scale != nullptr) all.push_back({scale, sizeof(float), false});
    return all;
  }

 private:
  MILLRACE_KERNEL static double square(float value) { return static_cast<double>(value) * static_cast<double>(value); }
};

// Results for a step once all squares are summed.
struct ClipResult {
  float scale = 1;  // 1 up to the limit, limit / norm beyond it, 0 if the norm is not finite
  float norm = 0;
};

struct ClipByNorm {
  static constexpr Form kForm = Form::groups;
  static constexpr int kThreads = 256;
  static constexpr const char* kName = "norm of gradients";
  const double* squares = nullptr;  // (count)
  ClipResult* result = nullptr;     // written
  std::int64_t count = 0;
  double limit = 0;

  std::int64_t size() const { return 1; }
  template <class Group>
  MILLRACE_KERNEL void operator()(const Group& group, std::int64_t) const {
    double total = 0;
    for (std::int64_t i = group.lane(); i < count; i += group.size()) total += squares[i];
    total = group.sum(total);
    if (group.lane() != 0) return;
    const double norm = sqrt(total);
    result->norm = static_cast<float>(norm);
    result->scale = !isfinite(norm) ? 0.0F : norm > limit ? static_cast<float>(limit / norm) : 1.0F;
  }
  std::vector<MemoryUse> uses() const {
    return {{squares, static_cast<std::size_t>(count) * sizeof(double), false}, {result, sizeof(ClipResult), true}};
  }
};

// The scale of an earlier stage, times the factor from the norm. A factor of 0 stays 0.
struct ProductOfScales {
  static constexpr Form kForm = Form::groups;
  static constexpr int kThreads = 32;
  static constexpr const char* kName = "scale of gradients";
  const float* earlier = nullptr;
  const float* factor = nullptr;
  float* scale = nullptr;  // written

  std::int64_t size() const { return 1; }
  template <class Group>
  MILLRACE_KERNEL void operator()(const Group& group, std::int64_t) const {
    if (group.lane() == 0) *scale = *factor == 0 ? 0.0F : *factor * *earlier;
  }
  std::vector<MemoryUse> uses() const {
    return {{earlier, sizeof(float), false}, {factor, sizeof(float), false}, {scale, sizeof(float), true}};
  }
};

// Clamps each gradient to [-limit, limit]; NaN stays NaN. An earlier stage's scale is not applied in memory yet, so `scale` *
// gradient is clamped.
struct ClipByValue {
  static constexpr Form kForm = Form::groups;
  static constexpr int kThreads = 256;
  static constexpr const char* kName = "bounds of gradients";
  float* gradients = nullptr;    // (elements), read and written
  const float* scale = nullptr;  // null: 1
  std::int64_t elements = 0;
  float limit = 0;

  std::int64_t size() const { return chunks_of_gradients(elements); }
  template <class Group>
  MILLRACE_KERNEL void operator()(const Group& group, std::int64_t chunk) const {
    float* const values = gradients + chunk * kChunkOfGradients;
    const std::int64_t left = elements - chunk * kChunkOfGradients, count = left < kChunkOfGradients ? left : kChunkOfGradients;
    const float factor = scale == nullptr ? 1.0F : *scale;
    if (factor == 0) return;  // nothing is updated
    const float bound = limit / factor;
    for (std::int64_t i = group.lane(); i < count; i += group.size()) {
      values[i] = values[i] > bound ? bound : values[i] < -bound ? -bound : values[i];
    }
  }
  std::vector<MemoryUse> uses() const {
    const std::size_t bytes = static_cast<std::size_t>(elements) * sizeof(float);
    std::vector<MemoryUse> all = {{gradients, bytes, false}, {gradients, bytes, true}};
    if (scale != nullptr) all.push_back({scale, sizeof(float), false});
    return all;
  }
};

// Several parameters of one bucket, whose gradients are processed in chunks. Plain data, passed to kernels by value.
struct ParameterChunks {
  static constexpr int kMax = 32;
  int parameters = 0;
  std::int64_t begin[kMax + 1] = {};        // by parameter: begin of its gradients, and the end of the last
  std::int64_t first_chunk[kMax + 1] = {};  // by parameter, and the end

  // Appends the next parameter. REQUIRES: parameters < kMax.
  void add(std::int64_t elements) {
    begin[parameters + 1] = begin[parameters] + elements;
    first_chunk[parameters + 1] = first_chunk[parameters] + chunks_of_gradients(elements);
    ++parameters;
  }
  MILLRACE_KERNEL std::int64_t chunks() const { return first_chunk[parameters]; }
  MILLRACE_KERNEL std::int64_t elements() const { return begin[parameters] - begin[0]; }
  MILLRACE_KERNEL int parameter_of(std::int64_t chunk) const {
    int parameter = 0;
    while (chunk >= first_chunk[parameter + 1]) ++parameter;
    return parameter;
  }
};

// The sum of squares of each chunk, in double, in an order that depends on the parameter's number of elements alone.
struct SquaresOfParameters {
  static constexpr Form kForm = Form::groups;
  static constexpr int kThreads = 256;
  static constexpr const char* kName = "squares of each parameter's gradients";
  ParameterChunks of;
  const float* gradients = nullptr;  // the bucket's gradients
  double* squares = nullptr;         // (chunks), written

  std::int64_t size() const { return of.chunks(); }
  template <class Group>
  MILLRACE_KERNEL void operator()(const Group& group, std::int64_t chunk) const {
    const int parameter = of.parameter_of(chunk);
    SumOfSquares sum{.gradients = gradients + of.begin[parameter],
                     .squares = squares + of.first_chunk[parameter],
                     .elements = of.begin[parameter + 1] - of.begin[parameter]};
    sum(group, chunk - of.first_chunk[parameter]);
  }
  std::vector<MemoryUse> uses() const {
    return {{gradients + of.begin[0], static_cast<std::size_t>(of.elements()) * sizeof(float), false},
            {squares, static_cast<std::size_t>(size()) * sizeof(double), true}};
  }
};

// Scales each parameter's gradients down to the limit if `scale` times their norm exceeds it. Parameters whose norm is not finite
// are left unchanged.
struct BoundParameters {
  static constexpr Form kForm = Form::groups;
  static constexpr int kThreads = 256;
  static constexpr const char* kName = "bounds of each parameter's gradients";
  ParameterChunks of;
  float* gradients = nullptr;       // the bucket's gradients, read and written
  const double* squares = nullptr;  // (chunks)
  const float* scale = nullptr;     // null: 1
  double limit = 0;

  std::int64_t size() const { return of.chunks(); }
  template <class Group>
  MILLRACE_KERNEL void operator()(const Group& group, std::int64_t chunk) const {
    const int parameter = of.parameter_of(chunk);
    double total = 0;
    for (std::int64_t i = of.first_chunk[parameter] + group.lane(); i < of.first_chunk[parameter + 1]; i += group.size()) {
      total += squares[i];
    }
    const double norm = sqrt(group.sum(total)) * (scale == nullptr ? 1.0 : fabs(static_cast<double>(*scale)));
    if (!isfinite(norm) || norm <= limit) return;
    const auto factor = static_cast<float>(limit / norm);
    const std::int64_t first = of.begin[parameter] + (chunk - of.first_chunk[parameter]) * kChunkOfGradients;
    const std::int64_t end = of.begin[parameter + 1], last = end - first < kChunkOfGradients ? end : first + kChunkOfGradients;
    for (std::int64_t i = first + group.lane(); i < last; i += group.size()) gradients[i] *= factor;
  }
  std::vector<MemoryUse> uses() const {
    const std::size_t bytes = static_cast<std::size_t>(of.elements()) * sizeof(float);
    std::vector<MemoryUse> all = {{gradients + of.begin[0], bytes, false},
                                  {gradients + of.begin[0], bytes, true},
                                  {squares, static_cast<std::size_t>(size()) * sizeof(double), false}};
    if (scale != nullptr) all.push_back({scale, sizeof(float), false});
    return all;
  }
};

MILLRACE_ELEMENTS(SumOfSquares, ClipByNorm, ProductOfScales, ClipByValue, SquaresOfParameters, BoundParameters)

}  // namespace millrace

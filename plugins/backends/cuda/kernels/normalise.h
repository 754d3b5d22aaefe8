// Batch normalisation in training and inference, forward and backward, with the addition and the activation after it.
//
//   Moments, FinishMoments, Normalise                                  forward in training
//   RunningMoments, Normalise                                          inference
//   NormaliseMaxPool                                                   instead of Normalise if a max pooling follows the
//                                                                      ReLU
//   NormaliseBackwardSums, FinishSums, NormaliseBackward               backward
//
// Sums are finished by a separate kernel (FinishMoments, FinishSums) or, with tickets, by their last block (last_block.h).
//
// Maps are (rows, row_packs * 8) with rows = N * H * W. Arrays by channel have row_packs * 8 elements, float32, zero after the
// last channel. pre = (x - mean) * factor + shift [+ residual], with factor = scale / sqrt(variance + epsilon); y =
// activation(pre).
#pragma once

#include <math.h>

#include "activation.h"
#include "chunks.h"
#include "columns.h"
#include "last_block.h"
#include "pool.h"
#include "portable.h"

namespace millrace::cuda {

// 0 if nothing varies and epsilon is 0: the padding after the last channel must stay zero.
MILLRACE_HD float inverse_deviation(float variance, float epsilon) {
  const float square = variance + epsilon;
#if defined(__CUDA_ARCH__)
  return square == 0 ? 0.0F : rsqrtf(square);
#else
  return square == 0 ? 0.0F : 1.0F / sqrtf(square);
#endif
}

// One channel: mean, biased variance and factor from the partial sums, added in double in the order of chunks; running statistics
// are updated (with the unbiased variance). REQUIRES: rows > 0.
template <class T>
struct FinishMoments {
  static constexpr Form kForm = Form::groups;
  static constexpr const char* kName = "finish moments";
  static constexpr int kThreads = 256;
  const T* x = nullptr;  // for the pivots
  const float* partial = nullptr;
  std::int64_t rows = 0, packs = 0;
  float epsilon = 0, momentum = 0;
  const float* scale = nullptr;  // null: 1
  float *mean = nullptr, *variance = nullptr, *factor = nullptr;
  float *running_mean = nullptr, *running_variance = nullptr;  // null: not kept

  std::int64_t size() const { return packs * kPack; }
  template <class Group>
  MILLRACE_HD void operator()(const Group& group, std::int64_t channel) const;
  MILLRACE_HD void take(std::int64_t channel, const double (&sums)[2]) const;  // the complete sums
  template <class Visitor>
  void accesses(Visitor& v) const;
  template <class Visitor>
  void visit_results(Visitor& v) const;  // all except x and partial
};

// Per channel, over rows: sum of (x - pivot) and of its square; pivot is the channel's value in row 0 (so that variances are
// accurate for means far from zero).
template <class T>
struct Moments {
  static constexpr Form kForm = Form::sums;
  static constexpr const char* kName = "moments";
  static constexpr int kSums = 2;
  const T* x = nullptr;
  std::int64_t rows = 0, packs = 0;
  float* partial = nullptr;  // (chunks_of(rows, packs), kSums, packs * 8)
  LastBlock last = {};
  FinishMoments<T> finish = {};  // with last.tickets: run by the last block

  template <class Use>
  auto with_column(const Use& use) const;
  template <class Visitor>
  void accesses(Visitor& v) const;
};

// factor from a running variance.
struct RunningMoments {
  static constexpr Form kForm = Form::each;
  static constexpr const char* kName = "running moments";
  const float *variance = nullptr, *scale = nullptr;  // scale null: 1
  float epsilon = 0;
  float* factor = nullptr;
  std::int64_t channels = 0;  // with padding

  std::int64_t size() const { return channels; }
  MILLRACE_HD void operator()(std::int64_t channel) const;
  template <class Visitor>
  void accesses(Visitor& v) const;
};

template <class T>
struct Normalise {
  static constexpr Form kForm = Form::columns;
  static constexpr const char* kName = "normalise";
  const T *x = nullptr, *residual = nullptr;                         // residual null: none
  T* y = nullptr;                                                    // may be x or residual
  const float *mean = nullptr, *factor = nullptr, *shift = nullptr;  // shift null: 0
  std::int64_t rows = 0, packs = 0;
  Activation activation = Activation::none;
  std::uint8_t* positive = nullptr;  // (rows, packs): bit k is set if channel k of the pack of y is above 0. Null: not wanted

  template <class Use>
  auto with_column(const Use& use) const;
  template <class Visitor>
  void accesses(Visitor& v) const;
};

// y = the max pooling of relu(pre), without storing relu(pre), which is rounded to T before the comparison.
template <class T>
struct NormaliseMaxPool {
  static constexpr Form kForm = Form::each;
  static constexpr const char* kName = "normalise and max pool";
  const T* x = nullptr;                                              // (n, h, w, packs * 8)
  T* y = nullptr;                                                    // (n, out_h, out_w, packs * 8)
  std::uint8_t* index = nullptr;                                     // as y, see MaxPool; null: not wanted
  const float *mean = nullptr, *factor = nullptr, *shift = nullptr;  // shift null: 0
  PoolExtents at;
  PoolWindow window;

  std::int64_t size() const { return at.n * at.out_h * at.out_w * at.packs; }
  MILLRACE_HD void operator()(std::int64_t i) const;
  template <class Visitor>
  void accesses(Visitor& v) const;
};

// out[s][channel] = sum over chunks of partial[chunk][s][channel], in double, in order; with a variance the second is divided by
// the deviation.
struct FinishSums {
  static constexpr Form kForm = Form::groups;
  static constexpr const char* kName = "finish sums";
  static constexpr int kThreads = 256;
  const float* partial = nullptr;
  std::int64_t chunks = 0, channels = 0;  // channels with padding
  int sums = 1;                           // 1 or 2
  float* out[2] = {nullptr, nullptr};
  const float* variance = nullptr;  // null: none
  float epsilon = 0;

  std::int64_t size() const { return channels * sums; }
  template <class Group>
  MILLRACE_HD void operator()(const Group& group, std::int64_t i) const;
  MILLRACE_HD void take(std::int64_t channel, int which, double sum) const;  // one complete sum
  template <int kSums>
  MILLRACE_HD void take(std::int64_t channel, const double (&sums_of_channel)[kSums]) const;
  template <class Visitor>
  void accesses(Visitor& v) const;
  template <class Visitor>
  void visit_results(Visitor& v) const;  // all except partial
};

// With g = dy * activation'(pre): per channel sum g and sum g * (x - mean). `masked` (null, or dy itself) becomes g. pre
// is computed again; where a residual was added its sign is taken from `positive` or y (ReLU), or the residual is needed (GELU).
// With `pooled`, of a ReLU with nothing added, dy is what a max pooling after it passes on.
template <class T>
struct NormaliseBackwardSums {
  static constexpr Form kForm = Form::sums;
  static constexpr const char* kName = "normalise backward sums";
  static constexpr int kSums = 2;
  const T *x = nullptr, *dy = nullptr;
  PooledGradient<T> pooled = {};              // instead of dy
  const T *y = nullptr, *residual = nullptr;  // after an addition: y for ReLU, residual for GELU
  const std::uint8_t* positive = nullptr;     // for ReLU, instead of y: written by Normalise
  T* masked = nullptr;
  const float *mean = nullptr, *factor = nullptr, *shift = nullptr;  // shift null: 0
  std::int64_t rows = 0, packs = 0;
  Activation activation = Activation::none;
  float* partial = nullptr;
  LastBlock last = {};
  FinishSums finish = {};  // with last.tickets: run by the last block

  template <class Use>
  auto with_column(const Use& use) const;
  template <class Visitor>
  void accesses(Visitor& v) const;
};

// dx = factor * (g - d_shift / rows - (x - mean) * inverse_deviation * d_scale / rows), added to dx if requested. dx may be dy.
// `pooled` as in NormaliseBackwardSums.
template <class T>
struct NormaliseBackward {
  static constexpr Form kForm = Form::columns;
  static constexpr const char* kName = "normalise backward";
  const T *x = nullptr, *dy = nullptr;
  PooledGradient<T> pooled = {};  // instead of dy
  T* dx = nullptr;
  const float *mean = nullptr, *variance = nullptr, *factor = nullptr, *shift = nullptr;
  const float *d_shift = nullptr, *d_scale = nullptr;
  float epsilon = 0;
  std::int64_t rows = 0, packs = 0;
  Activation activation = Activation::none;  // none if dy is masked already
  bool add = false;

  template <class Use>
  auto with_column(const Use& use) const;
  template <class Visitor>
  void accesses(Visitor& v) const;
};

// Per channel, the sum over rows: the gradient of a bias.
template <class T>
struct ColumnSums {
  static constexpr Form kForm = Form::sums;
  static constexpr const char* kName = "column sums";
  static constexpr int kSums = 1;
  const T* x = nullptr;
  std::int64_t rows = 0, packs = 0;
  float* partial = nullptr;
  LastBlock last = {};
  FinishSums finish = {};  // with last.tickets: run by the last block

  template <class Use>
  auto with_column(const Use& use) const;
  template <class Visitor>
  void accesses(Visitor& v) const;
};

}  // namespace millrace::cuda

#include "normalise_bodies.h"

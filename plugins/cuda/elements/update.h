// The optimizer: a bucket of parameters in one launch.
#pragma once

#include "portable.h"

namespace millrace::cuda {

// One parameter within a bucket.
struct UpdateSegment {
  std::int64_t begin = 0;  // its first pack, counted from the bucket's; ascending
  float rate_factor = 1, decay = 0;
};

// rule "sgd" of millrace/backend.h: g += decay * w; v = momentum * v + g; w -= rate * (nesterov ? g + momentum * v : v)
// with rate = rate_factor * learning_rate.
struct SgdUpdate {
  static constexpr Form kForm = Form::each;
  static constexpr const char* kName = "sgd";
  float *value = nullptr, *velocity = nullptr;  // velocity null only when momentum is 0
  const float* gradient = nullptr;
  Bf16* bf16 = nullptr;                     // a copy of the value; null: none
  const UpdateSegment* segments = nullptr;  // device memory; the first begins at 0
  std::int32_t segment_count = 0;
  std::int64_t packs = 0;
  float learning_rate = 0, momentum = 0;
  bool nesterov = false;

  std::int64_t size() const { return packs; }
  MILLRACE_HD void operator()(std::int64_t i) const;
  template <class Visitor>
  void accesses(Visitor& v) const;
};

// Lookahead: slow = decay * slow + (1 - decay) * value; value = slow.
struct BlendSlow {
  static constexpr Form kForm = Form::each;
  static constexpr const char* kName = "blend slow";
  float *value = nullptr, *slow = nullptr;
  Bf16* bf16 = nullptr;  // null: none
  std::int64_t packs = 0;
  float decay = 0;

  std::int64_t size() const { return packs; }
  MILLRACE_HD void operator()(std::int64_t i) const;
  template <class Visitor>
  void accesses(Visitor& v) const;
};

// ---- Bodies ----

// The last segment that begins at or before pack i.
MILLRACE_HD UpdateSegment segment_of(const UpdateSegment* segments, std::int32_t count, std::int64_t i) {
  std::int32_t first = 0;
  while (count > 1) {
    const std::int32_t half = count / 2;
    first = segments[first + half].begin <= i ? first + half : first;
    count -= half;
  }
  return segments[first];
}

MILLRACE_HD void SgdUpdate::operator()(std::int64_t i) const {
  const UpdateSegment segment = segment_of(segments, segment_count, i);
  const float rate = segment.rate_factor * learning_rate;
  float values[kPack], steps[kPack];
  load(value + i * kPack, values);
  load(gradient + i * kPack, steps);
  MILLRACE_UNROLL for (int k = 0; k < kPack; ++k) steps[k] += segment.decay * values[k];
  if (velocity != nullptr) {
    float speeds[kPack];
    load(velocity + i * kPack, speeds);
    MILLRACE_UNROLL for (int k = 0; k < kPack; ++k) {
      speeds[k] = momentum * speeds[k] + steps[k];
      steps[k] = nesterov ? steps[k] + momentum * speeds[k] : speeds[k];
    }
    store(velocity + i * kPack, speeds);
  }
  MILLRACE_UNROLL for (int k = 0; k < kPack; ++k) values[k] -= rate * steps[k];
  store(value + i * kPack, values);
  if (bf16 != nullptr) store(bf16 + i * kPack, values);
}
template <class Visitor>
void SgdUpdate::accesses(Visitor& v) const {
  visit_result(v, value, packs * kPack, true);
  visit_result(v, velocity, packs * kPack, true);
  visit_read(v, gradient, packs * kPack);
  visit_read(v, segments, segment_count);
  visit_write(v, bf16, packs * kPack);
}

MILLRACE_HD void BlendSlow::operator()(std::int64_t i) const {
  float kept[kPack], values[kPack];
  load(slow + i * kPack, kept);
  load(value + i * kPack, values);
  MILLRACE_UNROLL for (int k = 0; k < kPack; ++k) values[k] = decay * kept[k] + (1.0F - decay) * values[k];
  store(slow + i * kPack, values);
  store(value + i * kPack, values);
  if (bf16 != nullptr) store(bf16 + i * kPack, values);
}
template <class Visitor>
void BlendSlow::accesses(Visitor& v) const {
  visit_result(v, value, packs * kPack, true);
  visit_result(v, slow, packs * kPack, true);
  visit_write(v, bf16, packs * kPack);
}

}  // namespace millrace::cuda

// Copies that follow the weights. Optimizers have their own elements (millrace/kernels/update_elements.h).
#pragma once

#include "portable.h"

namespace millrace::cuda {

// copy = decay * copy + (1 - decay) * value; then value = copy if write_back.
struct Blend {
  static constexpr Form kForm = Form::each;
  static constexpr const char* kName = "blend";
  float *value = nullptr, *copy = nullptr;
  Bf16* bf16 = nullptr;  // the value in bf16; null: none
  std::int64_t packs = 0;
  float decay = 0;
  bool write_back = false;

  std::int64_t size() const { return packs; }
  MILLRACE_HD void operator()(std::int64_t i) const {
    float kept[kPack], values[kPack];
    load(copy + i * kPack, kept);
    load(value + i * kPack, values);
    MILLRACE_UNROLL for (int k = 0; k < kPack; ++k) values[k] = decay * kept[k] + (1.0F - decay) * values[k];
    store(copy + i * kPack, values);
    if (!write_back) return;
    store(value + i * kPack, values);
    if (bf16 != nullptr) store(bf16 + i * kPack, values);
  }
  template <class Visitor>
  void accesses(Visitor& v) const {
    visit_read(v, value, packs * kPack);
    visit_result(v, copy, packs * kPack, true);
    if (!write_back) return;
    visit_write(v, value, packs * kPack);
    visit_write(v, bf16, packs * kPack);
  }
};

// Swaps the values and the copy.
struct Swap {
  static constexpr Form kForm = Form::each;
  static constexpr const char* kName = "exchange";
  float *value = nullptr, *copy = nullptr;
  Bf16* bf16 = nullptr;  // the value in bf16; null: none
  std::int64_t packs = 0;

  std::int64_t size() const { return packs; }
  MILLRACE_HD void operator()(std::int64_t i) const {
    float kept[kPack], values[kPack];
    load(copy + i * kPack, kept);
    load(value + i * kPack, values);
    store(copy + i * kPack, values);
    store(value + i * kPack, kept);
    if (bf16 != nullptr) store(bf16 + i * kPack, kept);
  }
  template <class Visitor>
  void accesses(Visitor& v) const {
    visit_result(v, value, packs * kPack, true);
    visit_result(v, copy, packs * kPack, true);
    visit_write(v, bf16, packs * kPack);
  }
};

}  // namespace millrace::cuda

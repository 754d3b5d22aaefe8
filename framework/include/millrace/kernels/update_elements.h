// Elements made from an optimizer's kernel (update_kernel.h), for every device. For backends, which fill UpdateArguments;
// Optimizer::update() submits the elements.
#pragma once

#include <math.h>

#include <cstdint>

#include "millrace/kernels/kernel.h"

namespace millrace {

struct UpdateNumbers {
  float rate = 0;   // learning rate times the parameter's factor
  float decay = 0;  // weight decay times the parameter's factor
  // Euclidean norms of the parameter and of its gradient before this update, for optimizers of scope `parameter`; else 0. For a
  // kernel with direction() or before(), the gradient's norm is replaced by that of the returned direction.
  float value_norm = 0, gradient_norm = 0, direction_norm = 0;
  float rows = 1, columns = 1;  // of the parameter as a matrix in the network's layout: (out, all others)
};

// A kernel that needs the norm of its direction (update_kernel.h).
template <class K>
concept DirectedKernel = requires {
  &K::direction;
};
// A kernel of scope `matrix`.
template <class K>
concept MatrixKernel = requires {
  &K::before;
};
// A kernel with reduced states.
template <class K>
concept ReducingKernel = requires {
  &K::measure;
};

// Extent of an optimizer's state: one number per element of the parameter; or, reduced, one per row or column of the parameter as
// a matrix, or one for the whole.
enum class StateShape { element, rows, columns, scalar };

// ---- Arguments of an update ----

inline constexpr std::int64_t kUpdatePack = 8;    // elements that a device thread updates together: 32 bytes
inline constexpr std::int64_t kNormChunk = 4096;  // packs whose squares are summed by one group of threads
inline constexpr int kMaxStates = 4;

// One parameter within the arrays.
struct UpdateSegment {
  std::int64_t begin = 0;        // its first pack; ascending, the first segment's is 0
  std::int64_t first_chunk = 0;  // first of its sums of squares, chunks_of_norms() each
  float rate_factor = 1, decay = 0;
  std::int32_t rows = 1, columns = 1;  // as in UpdateNumbers
  // For reduced states. Element (r, c) of the matrix in memory is element r * width + c of the segment; a backend may have
  // permuted columns and put zeros between them.
  std::int64_t width = 1;
  std::int64_t first_row = 0, first_column = 0;  // in states of rows and of columns; columns in whole packs
};
constexpr std::int64_t column_packs(std::int64_t width) { return (width + kUpdatePack - 1) / kUpdatePack; }
constexpr std::int64_t chunks_of_norms(std::int64_t packs) { return (packs + kNormChunk - 1) / kNormChunk; }

struct Squares {
  double value = 0, gradient = 0;  // for kernels with direction() or before(): `gradient` is that of the returned direction
};

// Parallel arrays of whole packs, 32-byte aligned, disjoint. Padding holds zeros.
struct UpdateArguments {
  float* value = nullptr;
  const float* gradient = nullptr;
  float* states[kMaxStates] = {};      // in the order of Optimizer::states()
  StateShape shapes[kMaxStates] = {};  // set by the optimizer
  Bf16* bf16 = nullptr;                 // a copy of the value, written; null: none
  std::int64_t packs = 0;
  const UpdateSegment* segments = nullptr;  // they cover the arrays
  std::int32_t segment_count = 0;
  float learning_rate = 0;
  const float* scale = nullptr;    // multiplies the gradient, such as a clip factor; 0: nothing is updated; null: 1
  std::uint32_t* wrong = nullptr;  // set to 1 if a gradient is not finite; null: not checked
  // For optimizers of scope `matrix`: Optimizer::directions() writes it, update() reads it instead of the gradient.
  float* direction = nullptr;
  std::int64_t rows = 0, column_packs = 0;  // over all segments, for optimizers with reduced states
  // For optimizers of scope `parameter` and `matrix`, and with reduced states; overwritten.
  Squares* partial_squares = nullptr;  // one for each chunk of all segments
  Squares* squares = nullptr;          // one for each segment
  std::int64_t chunks = 0;             // over all segments
};

MILLRACE_KERNEL bool is_finite(float value) { return value - value == 0; }
// Safe to call from several threads at once.
MILLRACE_KERNEL void mark_wrong(std::uint32_t* wrong) {
#ifdef __CUDA_ARCH__
  *wrong = 1;
#else
  __atomic_store_n(wrong, 1U, __ATOMIC_RELAXED);
#endif
}

// The last segment whose `first` is at most i.
MILLRACE_KERNEL std::int32_t segment_of(const UpdateArguments& at, std::int64_t UpdateSegment::*first, std::int64_t i) {
  std::int32_t found = 0;
  for (std::int32_t count = at.segment_count; count > 1;) {
    const std::int32_t half = count / 2;
    found = at.segments[found + half].*first <= i ? found + half : found;
    count -= half;
  }
  return found;
}
MILLRACE_KERNEL std::int64_t segment_end(const UpdateArguments& at, std::int32_t segment) {  // in packs
  return segment + 1 < at.segment_count ? at.segments[segment + 1].begin : at.packs;
}

MILLRACE_KERNEL UpdateNumbers numbers_without_norms(const UpdateArguments& at, std::int32_t segment) {
  const UpdateSegment& own = at.segments[segment];
  UpdateNumbers n;
  n.rate = own.rate_factor * at.learning_rate;
  n.decay = own.decay;
  n.rows = static_cast<float>(own.rows);
  n.columns = static_cast<float>(own.columns);
  return n;
}
template <class K>
MILLRACE_KERNEL UpdateNumbers numbers_of(const UpdateArguments& at, std::int32_t segment) {
  UpdateNumbers n = numbers_without_norms(at, segment);
  if (at.squares == nullptr) return n;
  n.value_norm = static_cast<float>(sqrt(at.squares[segment].value));
  const auto other = static_cast<float>(sqrt(at.squares[segment].gradient));
  if constexpr (DirectedKernel<K> || MatrixKernel<K>) {
    n.direction_norm = other;
  } else {
    n.gradient_norm = at.scale != nullptr ? other * *at.scale : other;
  }
  return n;
}

// ---- Elements ----

template <class K>
inline constexpr int state_slots = K::kStates > 0 ? K::kStates : 1;

template <class K, int kSlots>
MILLRACE_KERNEL void update_one(const K& kernel, const UpdateNumbers& n, float gradient, float& value, float (&states)[kSlots]) {
  if constexpr (K::kStates == 0) {
    kernel(n, gradient, value);
  } else {
    kernel(n, gradient, value, states);
  }
}

template <class T>
struct alignas(16) UpdatePack {
  T values[kUpdatePack];
};
template <class T>
MILLRACE_KERNEL UpdatePack<T>& pack_at(T* array, std::int64_t pack) {
  return reinterpret_cast<UpdatePack<T>*>(array)[pack];
}
template <class T>
MILLRACE_KERNEL const UpdatePack<T>& pack_at(const T* array, std::int64_t pack) {
  return reinterpret_cast<const UpdatePack<T>*>(array)[pack];
}
MILLRACE_KERNEL void look_at(const UpdatePack<float>& gradient, std::uint32_t* wrong) {
  if (wrong == nullptr) return;
  bool finite = true;
  MILLRACE_UNROLL for (int k = 0; k < kUpdatePack; ++k) finite = finite && is_finite(gradient.values[k]);
  if (!finite) mark_wrong(wrong);
}

// Loads elements [first, first + count) of a state in the order of the parameter's elements; `first` counts from the start of the
// arrays, and all belong to one segment. Padding after the last row has no state and reads as 0.
MILLRACE_KERNEL void load_state(const UpdateArguments& at, std::int32_t segment, int s, std::int64_t first, std::int64_t count,
                                float* values) {
  const UpdateSegment& own = at.segments[segment];
  const float* const state = at.states[s];
  std::int64_t row = (first - own.begin * kUpdatePack) / own.width, column = first - own.begin * kUpdatePack - row * own.width;
  for (std::int64_t k = 0; k < count; ++k) {
    if (state == nullptr) {
      values[k] = 0;
    } else if (at.shapes[s] == StateShape::element) {
      values[k] = state[first + k];
    } else if (at.shapes[s] == StateShape::rows) {
      values[k] = row < own.rows ? state[own.first_row + row] : 0.0F;
    } else if (at.shapes[s] == StateShape::columns) {
      values[k] = state[own.first_column + column];
    } else {
      values[k] = state[segment];
    }
    const bool ends = ++column == own.width;
    row += ends ? 1 : 0;
    column = ends ? 0 : column;
  }
}
template <class K>
MILLRACE_KERNEL UpdatePack<float> state_pack(const UpdateArguments& at, std::int32_t segment, int s, std::int64_t i) {
  UpdatePack<float> pack = {};
  if constexpr (ReducingKernel<K>) {
    load_state(at, segment, s, i * kUpdatePack, kUpdatePack, pack.values);
  } else if (at.states[s] != nullptr) {
    pack = pack_at(at.states[s], i);
  }
  return pack;
}
// Reduced states are updated before the elements.
template <class K>
MILLRACE_KERNEL bool is_stored(const UpdateArguments& at, int s) {
  return at.states[s] != nullptr && (!ReducingKernel<K> || at.shapes[s] == StateShape::element);
}

// An element of optimizer kernel K: one pack of values.
template <class K>
struct UpdateElement {
  static constexpr Form kForm = Form::each;
  static constexpr const char* kName = "update";
  UpdateArguments at;
  K kernel;

  std::int64_t size() const { return at.packs; }
  MILLRACE_KERNEL void operator()(std::int64_t i) const {
    if (at.scale != nullptr && *at.scale == 0) return;
    const std::int32_t segment = segment_of(at, &UpdateSegment::begin, i);
    const UpdateNumbers n = numbers_of<K>(at, segment);
    UpdatePack<float> value = pack_at(at.value, i), gradient = pack_at(at.gradient, i), states[state_slots<K>];
    look_at(gradient, at.wrong);
    MILLRACE_UNROLL for (int s = 0; s < K::kStates; ++s) states[s] = state_pack<K>(at, segment, s, i);
    MILLRACE_UNROLL for (int k = 0; k < kUpdatePack; ++k) {
      if (at.scale != nullptr && !MatrixKernel<K>) gradient.values[k] *= *at.scale;
      float own[state_slots<K>];
      MILLRACE_UNROLL for (int s = 0; s < K::kStates; ++s) own[s] = states[s].values[k];
      update_one(kernel, n, gradient.values[k], value.values[k], own);
      MILLRACE_UNROLL for (int s = 0; s < K::kStates; ++s) states[s].values[k] = own[s];
    }
    pack_at(at.value, i) = value;
    MILLRACE_UNROLL for (int s = 0; s < K::kStates; ++s) {
      if (is_stored<K>(at, s)) pack_at(at.states[s], i) = states[s];
    }
    if (at.bf16 == nullptr) return;
    UpdatePack<Bf16> copy;
    MILLRACE_UNROLL for (int k = 0; k < kUpdatePack; ++k) copy.values[k] = from_float<Bf16>(value.values[k]);
    pack_at(at.bf16, i) = copy;
  }
  std::vector<MemoryUse> uses() const;
};

// Computes the directions of one pack, at.direction, with the states that before() changes.
template <class K>
struct DirectionElement {
  static constexpr Form kForm = Form::each;
  static constexpr const char* kName = "directions";
  UpdateArguments at;
  K kernel;

  std::int64_t size() const { return at.packs; }
  MILLRACE_KERNEL void operator()(std::int64_t i) const {
    const float scale = at.scale != nullptr ? *at.scale : 1.0F;
    if (scale == 0) return;
    const UpdateNumbers n = numbers_of<K>(at, segment_of(at, &UpdateSegment::begin, i));
    const UpdatePack<float> value = pack_at(at.value, i), gradient = pack_at(at.gradient, i);
    UpdatePack<float> states[state_slots<K>], direction;
    look_at(gradient, at.wrong);
    MILLRACE_UNROLL for (int s = 0; s < K::kStates; ++s) {
      states[s] = at.states[s] == nullptr ? UpdatePack<float>{} : pack_at(at.states[s], i);
    }
    MILLRACE_UNROLL for (int k = 0; k < kUpdatePack; ++k) {
      float own[state_slots<K>];
      MILLRACE_UNROLL for (int s = 0; s < K::kStates; ++s) own[s] = states[s].values[k];
      direction.values[k] = kernel.before(n, scale * gradient.values[k], value.values[k], own);
      MILLRACE_UNROLL for (int s = 0; s < K::kStates; ++s) states[s].values[k] = own[s];
    }
    pack_at(at.direction, i) = direction;
    MILLRACE_UNROLL for (int s = 0; s < K::kStates; ++s) {
      if (at.states[s] != nullptr) pack_at(at.states[s], i) = states[s];
    }
  }
  std::vector<MemoryUse> uses() const;
};

// Sums the squares of one chunk of values and of their counterparts, in double, in an order that depends on the
// segments alone. counterparts.pack(i, segment, values of pack i) -> UpdatePack<float>.
template <class Counterparts, class Group>
MILLRACE_KERNEL void sum_squares(const UpdateArguments& at, const Counterparts& counterparts, const Group& group,
                                 std::int64_t chunk) {
  const std::int32_t segment = segment_of(at, &UpdateSegment::first_chunk, chunk);
  const UpdateSegment& own = at.segments[segment];
  const std::int64_t first = own.begin + (chunk - own.first_chunk) * kNormChunk, end = segment_end(at, segment);
  const std::int64_t last = end - first < kNormChunk ? end : first + kNormChunk;
  double value[kUpdatePack] = {}, other[kUpdatePack] = {};
  for (std::int64_t i = first + group.lane(); i < last; i += group.size()) {
    const UpdatePack<float> v = pack_at(at.value, i), g = counterparts.pack(i, segment, v);
    MILLRACE_UNROLL for (int k = 0; k < kUpdatePack; ++k) {
      value[k] += static_cast<double>(v.values[k]) * static_cast<double>(v.values[k]);
      other[k] += static_cast<double>(g.values[k]) * static_cast<double>(g.values[k]);
    }
  }
  Squares sum;
  MILLRACE_UNROLL for (int k = 0; k < kUpdatePack; ++k) sum = {sum.value + value[k], sum.gradient + other[k]};
  sum = {group.sum(sum.value), group.sum(sum.gradient)};
  if (group.lane() == 0) at.partial_squares[chunk] = sum;
}

// The squares of one chunk of values and gradients.
struct SquaresOfChunk {
  static constexpr Form kForm = Form::groups;
  static constexpr int kThreads = 256;
  static constexpr const char* kName = "norms";
  UpdateArguments at;

  std::int64_t size() const { return at.chunks; }
  template <class Group>
  MILLRACE_KERNEL void operator()(const Group& group, std::int64_t chunk) const {
    sum_squares(at, *this, group, chunk);
  }
  MILLRACE_KERNEL UpdatePack<float> pack(std::int64_t i, std::int32_t, const UpdatePack<float>&) const {
    return pack_at(at.gradient, i);
  }
  std::vector<MemoryUse> uses() const;
};

// The squares of one chunk of values and directions. Does not change states.
template <class K>
struct SquaresOfDirections {
  static constexpr Form kForm = Form::groups;
  static constexpr int kThreads = 256;
  static constexpr const char* kName = "norms of directions";
  UpdateArguments at;
  K kernel;

  std::int64_t size() const { return at.chunks; }
  template <class Group>
  MILLRACE_KERNEL void operator()(const Group& group, std::int64_t chunk) const {
    sum_squares(at, *this, group, chunk);
  }
  MILLRACE_KERNEL UpdatePack<float> pack(std::int64_t i, std::int32_t segment, const UpdatePack<float>& value) const {
    const UpdateNumbers n = numbers_without_norms(at, segment);
    const float scale = at.scale != nullptr ? *at.scale : 1.0F;
    const UpdatePack<float> gradient = pack_at(at.gradient, i);
    UpdatePack<float> states[state_slots<K>], result;
    MILLRACE_UNROLL for (int s = 0; s < K::kStates; ++s) states[s] = state_pack<K>(at, segment, s, i);
    MILLRACE_UNROLL for (int k = 0; k < kUpdatePack; ++k) {
      float own[state_slots<K>];
      MILLRACE_UNROLL for (int s = 0; s < K::kStates; ++s) own[s] = states[s].values[k];
      result.values[k] = kernel.direction(n, scale * gradient.values[k], value.values[k], own);
    }
    return result;
  }
  std::vector<MemoryUse> uses() const;
};

// The squares of one segment from those of its chunks.
struct SquaresOfSegment {
  static constexpr Form kForm = Form::groups;
  static constexpr int kThreads = 32;
  static constexpr const char* kName = "norms, added up";
  UpdateArguments at;

  std::int64_t size() const { return at.segment_count; }
  template <class Group>
  MILLRACE_KERNEL void operator()(const Group& group, std::int64_t i) const {
    const auto segment = static_cast<std::int32_t>(i);
    const std::int64_t last = segment + 1 < at.segment_count ? at.segments[segment + 1].first_chunk : at.chunks;
    Squares sum;
    for (std::int64_t chunk = at.segments[segment].first_chunk + group.lane(); chunk < last; chunk += group.size()) {
      sum = {sum.value + at.partial_squares[chunk].value, sum.gradient + at.partial_squares[chunk].gradient};
    }
    sum = {group.sum(sum.value), group.sum(sum.gradient)};
    if (group.lane() == 0) at.squares[segment] = sum;
  }
  std::vector<MemoryUse> uses() const;
};

// Memory that they read and write. Host only.
std::vector<MemoryUse> uses_of_update(const UpdateArguments& at);
template <class K>
std::vector<MemoryUse> UpdateElement<K>::uses() const {
  return uses_of_update(at);
}
std::vector<MemoryUse> uses_of_before(const UpdateArguments& at);
template <class K>
std::vector<MemoryUse> DirectionElement<K>::uses() const {
  return uses_of_before(at);
}
std::vector<MemoryUse> uses_of_directions(const UpdateArguments& at);
template <class K>
std::vector<MemoryUse> SquaresOfDirections<K>::uses() const {
  return uses_of_directions(at);
}

// Selects the element that sums the squares of a chunk for an optimizer of scope `parameter`.
template <class K>
struct SquaresOf {
  using Element = SquaresOfChunk;
  static Element of(const UpdateArguments& at, const K&) { return {at}; }
};
template <DirectedKernel K>
struct SquaresOf<K> {
  using Element = SquaresOfDirections<K>;
  static Element of(const UpdateArguments& at, const K& kernel) { return {at, kernel}; }
};
}  // namespace millrace

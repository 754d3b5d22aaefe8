// Updates reduced states from the gradient, for every device: means of a kernel's measure() over rows, over columns and over
// whole parameters. Submitted before the elements are updated.
#pragma once

#include <cstdint>
#include <vector>

#include "millrace/kernels/update_elements.h"

namespace millrace {

// A kernel's measure() of an element; 0 for padding.
template <class K>
MILLRACE_KERNEL double measured(const UpdateArguments& at, const K& kernel, const UpdateNumbers& n, int state,
                                std::int64_t element) {
  const float gradient = at.scale != nullptr ? *at.scale * at.gradient[element] : at.gradient[element];
  return static_cast<double>(kernel.measure(n, state, gradient, at.value[element]));
}
template <class K>
MILLRACE_KERNEL void reduce(const K& kernel, const UpdateNumbers& n, int state, double mean, float& kept) {
  kept = kernel.reduced(n, state, static_cast<float>(mean), kept);
}

// Number of elements in a row's pack that begins at this column, and the total of the sums that lanes keep separately.
MILLRACE_KERNEL std::int64_t pack_length(const UpdateSegment& own, std::int64_t column) {
  return own.width - column < kUpdatePack ? own.width - column : kUpdatePack;
}
template <class Group>
MILLRACE_KERNEL double sum_of_lanes(const Group& group, const double (&parts)[kUpdatePack]) {
  double sum = 0;
  MILLRACE_UNROLL for (int k = 0; k < kUpdatePack; ++k) sum += parts[k];
  return group.sum(sum);
}

// Memory that they read and write. Host only.
std::vector<MemoryUse> uses_of_reduction(const UpdateArguments& at, int state);
std::vector<MemoryUse> uses_of_measures(const UpdateArguments& at);
std::vector<MemoryUse> uses_of_measured_chunks(const UpdateArguments& at, int state);

// One row. A lane sums every eighth element of its packs separately, so that on a processor a lane fills its vectors.
template <class K>
struct ReduceRow {
  static constexpr Form kForm = Form::groups;
  static constexpr int kThreads = 32;
  static constexpr const char* kName = "means of rows";
  UpdateArguments at;
  K kernel;
  int state = 0;

  std::int64_t size() const { return at.rows; }
  template <class Group>
  MILLRACE_KERNEL void operator()(const Group& group, std::int64_t i) const {
    if (at.scale != nullptr && *at.scale == 0) return;
    const std::int32_t segment = segment_of(at, &UpdateSegment::first_row, i);
    const UpdateSegment& own = at.segments[segment];
    const UpdateNumbers n = numbers_without_norms(at, segment);
    const std::int64_t begin = own.begin * kUpdatePack + (i - own.first_row) * own.width;
    double parts[kUpdatePack] = {};
    for (std::int64_t column = group.lane() * kUpdatePack; column < own.width; column += group.size() * kUpdatePack) {
      const std::int64_t count = pack_length(own, column);
      for (std::int64_t k = 0; k < count; ++k) parts[k] += measured(at, kernel, n, state, begin + column + k);
    }
    const double sum = sum_of_lanes(group, parts);
    if (group.lane() == 0) reduce(kernel, n, state, sum / own.columns, at.states[state][i]);
  }
  std::vector<MemoryUse> uses() const { return uses_of_reduction(at, state); }
};

// A pack of columns.
template <class K>
struct ReduceColumns {
  static constexpr Form kForm = Form::groups;
  static constexpr int kThreads = 32;
  static constexpr const char* kName = "means of columns";
  UpdateArguments at;
  K kernel;
  int state = 0;

  std::int64_t size() const { return at.column_packs; }
  template <class Group>
  MILLRACE_KERNEL void operator()(const Group& group, std::int64_t i) const {
    if (at.scale != nullptr && *at.scale == 0) return;
    const std::int32_t segment = segment_of(at, &UpdateSegment::first_column, i * kUpdatePack);
    const UpdateSegment& own = at.segments[segment];
    const UpdateNumbers n = numbers_without_norms(at, segment);
    const std::int64_t column = i * kUpdatePack - own.first_column, begin = own.begin * kUpdatePack + column;
    const std::int64_t count = pack_length(own, column);
    double sums[kUpdatePack] = {};
    for (std::int64_t row = group.lane(); row < own.rows; row += group.size()) {
      for (std::int64_t k = 0; k < count; ++k) sums[k] += measured(at, kernel, n, state, begin + row * own.width + k);
    }
    for (std::int64_t k = 0; k < count; ++k) {
      const double sum = group.sum(sums[k]);
      if (group.lane() == 0) reduce(kernel, n, state, sum / own.rows, at.states[state][i * kUpdatePack + k]);
    }
  }
  std::vector<MemoryUse> uses() const { return uses_of_reduction(at, state); }
};

// A whole parameter takes two steps, as its norms do: sums of chunks, then their sum.
template <class K>
struct MeasureChunk {
  static constexpr Form kForm = Form::groups;
  static constexpr int kThreads = 256;
  static constexpr const char* kName = "means of parameters";
  UpdateArguments at;
  K kernel;
  int state = 0;

  std::int64_t size() const { return at.chunks; }
  template <class Group>
  MILLRACE_KERNEL void operator()(const Group& group, std::int64_t chunk) const {
    const std::int32_t segment = segment_of(at, &UpdateSegment::first_chunk, chunk);
    const UpdateSegment& own = at.segments[segment];
    const UpdateNumbers n = numbers_without_norms(at, segment);
    const std::int64_t first = own.begin + (chunk - own.first_chunk) * kNormChunk, end = segment_end(at, segment);
    const std::int64_t last = end - first < kNormChunk ? end : first + kNormChunk;
    double parts[kUpdatePack] = {};
    for (std::int64_t i = first + group.lane(); i < last; i += group.size()) {
      MILLRACE_UNROLL for (int k = 0; k < kUpdatePack; ++k) parts[k] += measured(at, kernel, n, state, i * kUpdatePack + k);
    }
    const double sum = sum_of_lanes(group, parts);
    if (group.lane() == 0) at.partial_squares[chunk].value = sum;
  }
  std::vector<MemoryUse> uses() const { return uses_of_measures(at); }
};

template <class K>
struct ReduceParameter {
  static constexpr Form kForm = Form::groups;
  static constexpr int kThreads = 32;
  static constexpr const char* kName = "means of parameters, added up";
  UpdateArguments at;
  K kernel;
  int state = 0;

  std::int64_t size() const { return at.segment_count; }
  template <class Group>
  MILLRACE_KERNEL void operator()(const Group& group, std::int64_t i) const {
    if (at.scale != nullptr && *at.scale == 0) return;
    const auto segment = static_cast<std::int32_t>(i);
    const UpdateSegment& own = at.segments[segment];
    const std::int64_t last = segment + 1 < at.segment_count ? at.segments[segment + 1].first_chunk : at.chunks;
    double sum = 0;
    for (std::int64_t chunk = own.first_chunk + group.lane(); chunk < last; chunk += group.size()) {
      sum += at.partial_squares[chunk].value;
    }
    sum = group.sum(sum);
    const double elements = static_cast<double>(own.rows) * own.columns;
    if (group.lane() == 0) reduce(kernel, numbers_without_norms(at, segment), state, sum / elements, at.states[state][i]);
  }
  std::vector<MemoryUse> uses() const { return uses_of_measured_chunks(at, state); }
};

}  // namespace millrace

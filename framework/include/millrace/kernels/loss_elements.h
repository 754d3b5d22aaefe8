// Elements (kernel.h) that sum a loss's values over places. Chunks depend on the number of places alone, so results do not depend
// on threads or devices.
#pragma once

#include <cstdint>

#include "millrace/kernels/kernel.h"

namespace millrace {

inline constexpr std::int64_t kChunkOfPlaces = 4096;
constexpr std::int64_t chunks_of_places(std::int64_t places) { return (places + kChunkOfPlaces - 1) / kChunkOfPlaces; }

// Sums one chunk of one figure.
struct SumPlaces {
  static constexpr Form kForm = Form::groups;
  static constexpr int kThreads = 256;
  static constexpr const char* kName = "sum figures";
  const float* figures = nullptr;  // (count, places)
  double* sums = nullptr;          // (count, chunks), written
  std::int64_t count = 0, places = 0;

  std::int64_t size() const { return count * chunks_of_places(places); }
  template <class Group>
  MILLRACE_KERNEL void operator()(const Group& group, std::int64_t i) const {
    const std::int64_t chunks = chunks_of_places(places), begin = i % chunks * kChunkOfPlaces;
    const std::int64_t end = places - begin < kChunkOfPlaces ? places : begin + kChunkOfPlaces;
    const float* const values = figures + i / chunks * places;
    double total = 0;
    for (std::int64_t place = begin + group.lane(); place < end; place += group.size())
      total += static_cast<double>(values[place]);
    total = group.sum(total);
    if (group.lane() == 0) sums[i] = total;
  }
  std::vector<MemoryUse> uses() const;
};

// Adds the chunks of one sum.
struct JoinSums {
  static constexpr Form kForm = Form::groups;
  static constexpr int kThreads = 32;
  static constexpr const char* kName = "sum figures, joined";
  const double* chunks = nullptr;  // (count, each)
  double* sums = nullptr;          // (count), written
  std::int64_t count = 0, each = 0;

  std::int64_t size() const { return count; }
  template <class Group>
  MILLRACE_KERNEL void operator()(const Group& group, std::int64_t i) const {
    double total = 0;
    for (std::int64_t chunk = group.lane(); chunk < each; chunk += group.size()) total += chunks[i * each + chunk];
    total = group.sum(total);
    if (group.lane() == 0) sums[i] = total;
  }
  std::vector<MemoryUse> uses() const;
};

// Counts the places of one chunk for each pair of classes. Places with class -1 are not counted. Counts are exact in any order,
// so chunks may be as large as memory for their pairs allows.
struct CountPairs {
  static constexpr Form kForm = Form::groups;
  static constexpr int kThreads = 256;
  static constexpr const char* kName = "class matrix";
  const float *classes = nullptr, *predicted = nullptr;  // (places)
  double* pairs = nullptr;                               // (number, number, chunks), written
  std::int64_t number = 0, places = 0, chunks = 1;

  std::int64_t size() const { return chunks; }
  template <class Group>
  MILLRACE_KERNEL void operator()(const Group& group, std::int64_t chunk) const {
    const std::int64_t each = (places + chunks - 1) / chunks, begin = chunk * each;
    const std::int64_t end = places - begin < each ? places : begin + each;
    for (std::int64_t pair = group.lane(); pair < number * number; pair += group.size()) pairs[pair * chunks + chunk] = 0;
    if (group.size() == 1) {
      for (std::int64_t place = begin; place < end; ++place) {
        if (classes[place] >= 0) pairs[pair_at(place) * chunks + chunk] += 1;
      }
      return;
    }
    // Each lane takes some pairs and scans all places, so that no two write the same number.
    for (std::int64_t pair = group.lane(); pair < number * number; pair += group.size()) {
      const auto of = static_cast<float>(pair / number), as = static_cast<float>(pair % number);
      std::int64_t count = 0;
      for (std::int64_t place = begin; place < end; ++place) count += classes[place] == of && predicted[place] == as ? 1 : 0;
      pairs[pair * chunks + chunk] = static_cast<double>(count);
    }
  }
  std::vector<MemoryUse> uses() const;

 private:
  MILLRACE_KERNEL std::int64_t pair_at(std::int64_t place) const {
    return static_cast<std::int64_t>(classes[place]) * number + static_cast<std::int64_t>(predicted[place]);
  }
};

// Weights of samples by class: those that belong to it, those predicted as it, and both. For a mixed image the label with the
// larger share counts, as in LabelledRow. A group has as many classes as threads, so that no two write the same number.
struct AddClasses {
  static constexpr Form kForm = Form::groups;
  static constexpr int kThreads = 256;
  static constexpr const char* kName = "class totals";
  const float *weights = nullptr, *labels = nullptr, *second_labels = nullptr, *shares = nullptr, *predicted = nullptr;  // (samples)
  double* totals = nullptr;  // (3, classes), written
  std::int64_t classes = 0, samples = 0;

  std::int64_t size() const { return (classes + kThreads - 1) / kThreads; }
  template <class Group>
  MILLRACE_KERNEL void operator()(const Group& group, std::int64_t i) const {
    const std::int64_t begin = i * kThreads, end = classes - begin < kThreads ? classes : begin + kThreads;
    for (std::int64_t first = begin + group.lane(); first < end; first += group.size()) {
      const std::int64_t last = group.size() == 1 ? end : first + 1;  // a single thread scans once for all classes
      for (std::int64_t c = first; c < last; ++c) totals[c] = totals[classes + c] = totals[2 * classes + c] = 0;
      for (std::int64_t sample = 0; sample < samples; ++sample) add(sample, first, last);
      if (group.size() == 1) return;
    }
  }
  std::vector<MemoryUse> uses() const;

 private:
  MILLRACE_KERNEL void add(std::int64_t sample, std::int64_t first, std::int64_t last) const {
    const auto weight = static_cast<double>(weights[sample]);
    if (weight == 0) return;  // its labels are undefined
    const auto of = static_cast<std::int64_t>(shares[sample] < 0.5F ? second_labels[sample] : labels[sample]);
    const auto as = static_cast<std::int64_t>(predicted[sample]);
    if (of >= first && of < last) totals[of] += weight;
    if (as >= first && as < last) totals[classes + as] += weight;
    if (of == as && of >= first && of < last) totals[2 * classes + of] += weight;
  }
};

}  // namespace millrace

// Lists the kernels of a loss for nvcc, as MILLRACE_KERNELS does, with those that sum its figures.
#define MILLRACE_LOSS_KERNELS(...) \
  MILLRACE_KERNELS(__VA_ARGS__)    \
  MILLRACE_ELEMENTS(::millrace::SumPlaces, ::millrace::JoinSums, ::millrace::CountPairs, \
                    ::millrace::AddClasses)

// Shared by the elements' tests: groups of several lanes, maps with element access in double for any type, and a check that an
// element's reads and writes match accesses().
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <barrier>
#include <cmath>
#include <cstring>
#include <functional>
#include <random>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "run_on_host.h"

namespace millrace::cuda {

// Shared state of the lanes in a group of threads.
struct ThreadGroupMeeting {
  explicit ThreadGroupMeeting(int lanes) : barrier(lanes), values(static_cast<std::size_t>(lanes)) {}
  std::barrier<> barrier;
  std::vector<double> values;  // also holds float and std::int32_t values
};

class ThreadGroup {
 public:
  ThreadGroup(ThreadGroupMeeting& meeting, int lane) : all_gather_(meeting), lane_(lane) {}
  int lane() const { return lane_; }
  int size() const { return static_cast<int>(all_gather_.values.size()); }
  template <class T>
  T sum(T value) const {
    return joined(value, [](T a, T b) { return static_cast<T>(a + b); });
  }
  template <class T>
  T largest(T value) const {
    return joined(value, [](T a, T b) { return std::max(a, b); });
  }
  void barrier() const { all_gather_.barrier.arrive_and_wait(); }

 private:
  template <class T, class Join>
  T joined(T value, const Join& join) const {
    all_gather_.values[static_cast<std::size_t>(lane_)] = static_cast<double>(value);
    barrier();
    T result = static_cast<T>(all_gather_.values[0]);
    for (std::size_t other = 1; other < all_gather_.values.size(); ++other)
      result = join(result, static_cast<T>(all_gather_.values[other]));
    barrier();
    return result;
  }

  ThreadGroupMeeting& all_gather_;
  int lane_;
};

// Runs an element of form `groups`, each group with `lanes` lanes on separate threads. For tests: it starts threads for every
// group.
template <class Element>
void run_on_threads(const Element& element, int lanes) {
  for (std::int64_t i = 0; i < element.size(); ++i) {
    ThreadGroupMeeting meeting(lanes);
    std::vector<std::thread> threads;
    for (int lane = 0; lane < lanes; ++lane) {
      threads.emplace_back([&element, &meeting, i, lane] { element(ThreadGroup(meeting, lane), i); });
    }
    for (std::thread& thread : threads) thread.join();
  }
}

template <class T>
class TypedElement : public ::testing::Test {};
using ElementTypes = ::testing::Types<float, Bf16>;

template <class T>
constexpr double tolerance() {  // relative to values near 1
  return std::is_same_v<T, Bf16> ? 1.0 / 128 : 2e-5;
}

// (rows, pitch) with a guard after it. New memory is filled with NaN: this reveals elements that are not written.
template <class T>
class TestMap {
 public:
  TestMap(std::int64_t rows, std::int64_t channels)
      : rows_(rows),
        channels_(channels),
        pitch_(pitch_of(channels)),
        memory_(static_cast<std::size_t>(rows * pitch_ / kPack + kGuard)) {
    std::memset(memory_.data(), 0xff, memory_.size() * sizeof(Pack<T>));
  }

  std::int64_t rows() const { return rows_; }
  std::int64_t channels() const { return channels_; }
  std::int64_t pitch() const { return pitch_; }
  std::int64_t row_packs() const { return pitch_ / kPack; }
  std::int64_t packs() const { return rows_ * row_packs(); }
  T* data() { return memory_.data()->values; }
  const T* data() const { return memory_.data()->values; }
  std::span<std::byte> bytes() { return std::as_writable_bytes(std::span(data(), static_cast<std::size_t>(rows_ * pitch_))); }

  double at(std::int64_t row, std::int64_t c) const { return static_cast<double>(to_float(data()[row * pitch_ + c])); }
  void set(std::int64_t row, std::int64_t c, double value) {
    data()[row * pitch_ + c] = from_float<T>(static_cast<float>(value));
  }
  void each(const std::function<void(std::int64_t, std::int64_t)>& body) const {
    for (std::int64_t row = 0; row < rows_; ++row) {
      for (std::int64_t c = 0; c < channels_; ++c) body(row, c);
    }
  }
  TestMap& zero() {
    std::memset(bytes().data(), 0, bytes().size());
    return *this;
  }
  TestMap& fill(unsigned seed, double mean = 0, double deviation = 1) {
    std::mt19937 generator(seed);
    std::normal_distribution<double> normal(mean, deviation);
    zero();
    each([&](auto row, auto c) { set(row, c, normal(generator)); });
    return *this;
  }

  // Close to the expected values; zero after the last channel; nothing written after the end.
  void expect_near(const std::function<double(std::int64_t, std::int64_t)>& expected, double within = tolerance<T>()) const {
    int bad = 0;
    each([&](auto row, auto c) {
      const double want = expected(row, c), found = at(row, c);
      if (!(std::abs(found - want) <= within * std::max(1.0, std::abs(want))) && bad++ < 3) {
        ADD_FAILURE() << "(" << row << ", " << c << "): found " << found << ", expected " << want;
      }
    });
    expect_padding();
  }
  void expect_padding() const {
    for (std::int64_t row = 0; row < rows_; ++row) {
      for (std::int64_t c = channels_; c < pitch_; ++c) ASSERT_EQ(at(row, c), 0) << "padding of row " << row;
    }
    const auto* const end = reinterpret_cast<const unsigned char*>(data() + rows_ * pitch_);
    for (std::size_t i = 0; i < kGuard * sizeof(Pack<T>); ++i) ASSERT_EQ(end[i], 0xff) << "written after the end";
  }

 private:
  static constexpr std::int64_t kGuard = 2;
  std::int64_t rows_, channels_, pitch_;
  std::vector<Pack<T>> memory_;
};

template <class T>
std::span<std::byte> bytes_of(std::vector<T>& values) {
  return std::as_writable_bytes(std::span(values));
}

// The bytes of the test's buffers that accesses() reports.
class Named {
 public:
  explicit Named(std::vector<std::span<std::byte>> buffers) : buffers_(std::move(buffers)) {
    for (const auto& buffer : buffers_) reads_.emplace_back(buffer.size()), writes_.emplace_back(buffer.size());
  }
  void read(const void* pointer, std::size_t bytes) { mark(reads_, pointer, bytes); }
  void write(void* pointer, std::size_t bytes) { mark(writes_, pointer, bytes); }
  bool reads(std::size_t buffer, std::size_t byte) const { return reads_[buffer][byte]; }
  bool writes(std::size_t buffer, std::size_t byte) const { return writes_[buffer][byte]; }

 private:
  void mark(std::vector<std::vector<bool>>& marks, const void* pointer, std::size_t bytes) {
    ASSERT_NE(pointer, nullptr);
    ASSERT_GT(bytes, 0U);
    const auto* const begin = static_cast<const std::byte*>(pointer);
    for (std::size_t b = 0; b < buffers_.size(); ++b) {
      if (begin < buffers_[b].data() || begin + bytes > buffers_[b].data() + buffers_[b].size()) continue;
      const auto first = marks[b].begin() + (begin - buffers_[b].data());
      std::fill(first, first + static_cast<std::ptrdiff_t>(bytes), true);
      return;
    }
    ADD_FAILURE() << "names " << bytes << " bytes that are nobody's";
  }

  std::vector<std::span<std::byte>> buffers_;
  std::vector<std::vector<bool>> reads_, writes_;
};

// Runs the element with different garbage in all bytes that it does not report as read: results must not change, and it must
// write exactly the bytes reported as written. The buffers are all memory that it uses; they keep the result of one run.
template <class Element>
void expect_names_its_memory(const Element& element, std::vector<std::span<std::byte>> buffers) {
  Named named(buffers);
  element.accesses(named);
  std::vector<std::vector<std::byte>> originals, first;
  for (const auto& buffer : buffers) originals.emplace_back(buffer.begin(), buffer.end());
  for (const auto garbage : {std::byte{0x5a}, std::byte{0xc3}}) {
    for (std::size_t b = 0; b < buffers.size(); ++b) {
      for (std::size_t i = 0; i < buffers[b].size(); ++i) buffers[b][i] = named.reads(b, i) ? originals[b][i] : garbage;
    }
    run_on_host(element);
    for (std::size_t b = 0; b < buffers.size(); ++b) {
      for (std::size_t i = 0; i < buffers[b].size(); ++i) {
        if (named.writes(b, i)) continue;
        ASSERT_EQ(buffers[b][i], named.reads(b, i) ? originals[b][i] : garbage) << "writes byte " << i << " of buffer " << b;
      }
    }
    if (first.empty()) {
      for (const auto& buffer : buffers) first.emplace_back(buffer.begin(), buffer.end());
    }
  }
  for (std::size_t b = 0; b < buffers.size(); ++b) {
    for (std::size_t i = 0; i < buffers[b].size(); ++i) {
      if (named.writes(b, i)) {
        ASSERT_EQ(buffers[b][i], first[b][i]) << "byte " << i << " of buffer " << b << " depends on garbage";
      } else {
        buffers[b][i] = originals[b][i];
      }
    }
  }
}

inline double normal_cdf(double x) { return 0.5 * std::erfc(-x / std::sqrt(2.0)); }

}  // namespace millrace::cuda

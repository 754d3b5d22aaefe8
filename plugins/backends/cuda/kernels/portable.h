// Shared by host and device code: element types, packs of eight channels, and the form of kernels.
//
// A kernel of this backend is a plain struct that holds pointers and extents and computes one element, one row or one column. The
// CUDA device launches it over a grid (device/launch.cuh); tests run the same struct in a loop on the host. Four forms:
//
//   struct Each    { static constexpr Form kForm = Form::each;
//                    std::int64_t size() const;                                    // elements, each independent of all others
//                    MILLRACE_HD void operator()(std::int64_t i) const; };
//   struct Rows    { static constexpr Form kForm = Form::groups; static constexpr int kThreads = 32 or 256;
//                    std::int64_t size() const;                                    // groups; a group of threads computes
//                                                                                  // together
//                    template <class Group> MILLRACE_HD void operator()(const Group& group, std::int64_t i) const; };
//   struct Columns { static constexpr Form kForm = Form::columns;                  // eight channels of many rows; see columns.h
//                    std::int64_t rows, packs;
//                    template <class Use> auto with_column(const Use& use) const; };
//   struct Sums    { static constexpr Form kForm = Form::sums; static constexpr int kSums = ...;
//                    std::int64_t rows, packs; float* partial;                     // (chunks, kSums, packs * 8); see chunks.h
//                    LastBlock last; Finish finish;                                // see last_block.h
//                    template <class Use> auto with_column(const Use& use) const; };
//
// And in each of them
//
//                    static constexpr const char* kName;                           // in traces and messages
//                    template <class Visitor> void accesses(Visitor& v) const;     // all memory read or written
//
// A Visitor has `void read(const void* pointer, std::size_t bytes)` and `void write(void* pointer, std::size_t bytes)`; memory
// both read and written is reported to both, null pointers and empty ranges to neither. Ranges are exact, except for channels
// within rows (CopyChannels), reported as the whole span from the first to the last. A Group has `int lane() const`, `int size()
// const`, `T sum(T) const` and `T largest(T) const` over its lanes (every lane gets the result; the order of the sum is fixed),
// for double, float and std::int32_t, and `void barrier() const`. sum() and largest() are barriers too.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "millrace/kernels/kernel.h"

#if defined(__CUDACC__)
#define MILLRACE_HD MILLRACE_KERNEL
#else
#define MILLRACE_HD inline
#endif
#if defined(__CUDACC__) && !defined(FMT_USE_CONSTEXPR)
#define FMT_USE_CONSTEXPR 1  // fmt 9 treats nvcc as a compiler without constexpr, and then does not compile as C++20
#endif

namespace millrace::cuda {

inline constexpr std::int64_t kPack = 8;  // channels that a thread handles together: 16 bytes of bf16

// Channels in memory: maps are channels last, (N, H, W, pitch), with zeros after the last channel, so that kernels need no tail
// code.
MILLRACE_HD constexpr std::int64_t pitch_of(std::int64_t channels) { return (channels + kPack - 1) / kPack * kPack; }

using millrace::Bf16;
using millrace::Form;
using millrace::from_float;
using millrace::to_float;

// Two of them in memory order, one after the other: a single instruction on the device.
MILLRACE_HD std::uint32_t bf16_pair(float first, float second) {
#if defined(__CUDA_ARCH__)
  std::uint32_t pair;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(second), "f"(first));
  return pair;
#else
  return from_float<Bf16>(first).bits | static_cast<std::uint32_t>(from_float<Bf16>(second).bits) << 16;
#endif
}

// Eight channels of one pixel, moved as 16-byte words. REQUIRES: the address is a multiple of 16 bytes.
template <class T>
struct alignas(16) Pack {
  T values[kPack];
};

// One pack, unconverted, for maps that are read once. The device loads it at this point of the program, so that several loads
// overlap: otherwise the compiler moves each load to its use, to save registers.
template <class T>
MILLRACE_HD Pack<T> fetch(const T* from) {
  Pack<T> pack;
#if defined(__CUDA_ARCH__)
  uint4 words[sizeof(Pack<T>) / sizeof(uint4)];
  MILLRACE_UNROLL for (std::size_t w = 0; w < sizeof(Pack<T>) / sizeof(uint4); ++w) {
    asm volatile("ld.global.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(words[w].x), "=r"(words[w].y), "=r"(words[w].z), "=r"(words[w].w)
                 : "l"(reinterpret_cast<const uint4*>(from) + w));
  }
  memcpy(&pack, words, sizeof pack);
#else
  pack = *reinterpret_cast<const Pack<T>*>(from);
#endif
  return pack;
}
// The same for one byte.
MILLRACE_HD std::uint8_t fetch(const std::uint8_t* from) {
#if defined(__CUDA_ARCH__)
  std::uint32_t byte;
  asm volatile("ld.global.L1::no_allocate.u8 %0, [%1];" : "=r"(byte) : "l"(from));
  return static_cast<std::uint8_t>(byte);
#else
  return *from;
#endif
}
template <class T>
MILLRACE_HD void unpack(const Pack<T>& pack, float (&to)[kPack]) {
  MILLRACE_UNROLL for (int k = 0; k < kPack; ++k) to[k] = to_float(pack.values[k]);
}
template <class T>
MILLRACE_HD void load(const T* from, float (&to)[kPack]) {
  unpack(*reinterpret_cast<const Pack<T>*>(from), to);
}
template <class T>
MILLRACE_HD Pack<T> pack_of(const float (&values)[kPack]) {
  Pack<T> pack;
  if constexpr (std::is_same_v<T, Bf16>) {
    std::uint32_t pairs[kPack / 2];
    MILLRACE_UNROLL for (int k = 0; k < kPack; k += 2) pairs[k / 2] = bf16_pair(values[k], values[k + 1]);
    memcpy(&pack, pairs, sizeof pack);
  } else {
    MILLRACE_UNROLL for (int k = 0; k < kPack; ++k) pack.values[k] = from_float<T>(values[k]);
  }
  return pack;
}
template <class T>
MILLRACE_HD void store(T* to, const float (&from)[kPack]) {
  *reinterpret_cast<Pack<T>*>(to) = pack_of<T>(from);
}

// The same for memory that is not written while the kernel runs: values common to all rows are loaded once.
template <class T>
MILLRACE_HD void load_constant(const T* from, float (&to)[kPack]) {
#if defined(__CUDA_ARCH__)
  uint4 words[sizeof(Pack<T>) / sizeof(uint4)];
  MILLRACE_UNROLL for (std::size_t w = 0; w < sizeof(Pack<T>) / sizeof(uint4); ++w) {
    words[w] = __ldg(reinterpret_cast<const uint4*>(from) + w);
  }
  Pack<T> pack;
  memcpy(&pack, words, sizeof pack);
  unpack(pack, to);
#else
  load(from, to);
#endif
}

// Writes, or adds to the existing values.
template <class T>
MILLRACE_HD void store(T* to, const float (&from)[kPack], bool add) {
  float sum[kPack] = {};
  if (add) load(to, sum);
  MILLRACE_UNROLL for (int k = 0; k < kPack; ++k) sum[k] += from[k];
  store(to, sum);
}

// i / by and i % by. REQUIRES: i >= 0, by > 0. Uses 32 bits if both fit, as nearly always, which takes a quarter of the time.
struct Division {
  std::int64_t quotient, remainder;
};
MILLRACE_HD Division divide(std::int64_t i, std::int64_t by) {
  if (((i | by) >> 32) != 0) return {i / by, i % by};
  const auto dividend = static_cast<std::uint32_t>(i), divisor = static_cast<std::uint32_t>(by);
  const std::uint32_t quotient = dividend / divisor;
  return {quotient, dividend - quotient * divisor};
}

// Helpers for accesses().
template <class Visitor, class T>
void visit_read(Visitor& v, const T* pointer, std::int64_t elements) {
  if (pointer != nullptr && elements > 0) v.read(pointer, static_cast<std::size_t>(elements) * sizeof(T));
}
template <class Visitor, class T>
void visit_write(Visitor& v, T* pointer, std::int64_t elements) {
  if (pointer != nullptr && elements > 0) v.write(pointer, static_cast<std::size_t>(elements) * sizeof(T));
}
// A map or array that is written, or added to.
template <class Visitor, class T>
void visit_result(Visitor& v, T* pointer, std::int64_t elements, bool add) {
  if (add) visit_read(v, pointer, elements);
  visit_write(v, pointer, elements);
}

}  // namespace millrace::cuda

// Kernels: code that computes elements, written once for the processor, the simulated GPU and CUDA, and submitted as data.
//
// An element is a plain struct with a kernel's arguments: pointers, extents, numbers. A Kernel describes elements with their type
// erased: a backend copies their bytes and runs them on its device.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

// Marks the functions of kernels. Such a function calls only functions with this mark, reads no host memory except its arguments,
// and does not throw.
#if defined(__CUDACC__)
#define MILLRACE_KERNEL __host__ __device__ __forceinline__
#else
#define MILLRACE_KERNEL __attribute__((always_inline)) inline
#endif

#if defined(__CUDA_ARCH__)
#define MILLRACE_UNROLL _Pragma("unroll")
#else
#define MILLRACE_UNROLL
#endif

namespace millrace {

// How an element is computed on a device (Element::kForm):
//   each     std::int64_t size() const; void operator()(std::int64_t i) const: elements, each independent of all others
//   groups   static constexpr int kThreads = 32 or 256; std::int64_t size() const;
//            template <class Group> void operator()(const Group& group, std::int64_t i) const: a group of threads for each i
//   columns, sums: for backend "cuda" alone
// A Group has int lane() and size(), T sum(T) and T largest(T) over its lanes, for double, float and std::int32_t, and barrier().
// All lanes receive the result; the order of the sum is fixed. sum() and largest() are barriers too.
enum class Form { each, groups, columns, sums };

// Memory that an element reads or writes; listed twice if it does both.
struct MemoryUse {
  const void* memory = nullptr;
  std::size_t bytes = 0;
  bool write = false;
};

// Launches an element on a device. Returns the cudaError_t of the launch; `stream` is a cudaStream_t.
using DeviceLauncher = int (*)(const void* element, void* stream, int multiprocessors);

struct Kernel {
  const char* name;   // in traces and messages
  std::size_t bytes;  // size of an element; elements are trivially copyable
  std::vector<MemoryUse> (*uses)(const void* element);
  // On the host: an element has `units(element)` independent units of work, which may run in any order and on several threads at
  // once. Results do not depend on how units are distributed.
  std::int64_t (*units)(const void* element);
  void (*run_on_host)(const void* element, std::int64_t first_unit, std::int64_t last_unit);
  const DeviceLauncher& on_device;  // null: compiled without the CUDA toolkit
};

// Set when a library is loaded in which nvcc has compiled the element.
template <class Element>
inline DeviceLauncher device_launcher = nullptr;

// ---- bf16 ----

struct Bf16 {
  std::uint16_t bits;
};

MILLRACE_KERNEL float to_float(float value) { return value; }
MILLRACE_KERNEL float to_float(Bf16 value) {
  const std::uint32_t wide = static_cast<std::uint32_t>(value.bits) << 16;
  float result;
  memcpy(&result, &wide, sizeof result);
  return result;
}

template <class T>
MILLRACE_KERNEL T from_float(float value);
template <>
MILLRACE_KERNEL float from_float<float>(float value) {
  return value;
}
template <>
MILLRACE_KERNEL Bf16 from_float<Bf16>(float value) {  // to nearest, ties to even; keeps NaN
#if defined(__CUDA_ARCH__)
  Bf16 result;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(result.bits) : "f"(value));
  return result;
#else
  std::uint32_t wide;
  memcpy(&wide, &value, sizeof wide);
  const std::uint32_t rounded = (wide + 0x7fffU + ((wide >> 16) & 1U)) >> 16, nan = (wide >> 16) | 0x40U;
  return {static_cast<std::uint16_t>((wide & 0x7fffffffU) > 0x7f800000U ? nan : rounded)};
#endif
}

// Lists the kernels of a header for nvcc, at its end and within their namespace. Other compilers ignore it.
#if defined(MILLRACE_DEVICE_CODE)
#define MILLRACE_KERNELS(...) static const ::millrace::PortableDeviceCode<__VA_ARGS__> MILLRACE_UNIQUE(millrace_device_code_);
#define MILLRACE_ELEMENTS(...) static const ::millrace::ElementDeviceCode<__VA_ARGS__> MILLRACE_UNIQUE(millrace_device_code_);
#else
#define MILLRACE_KERNELS(...)
#define MILLRACE_ELEMENTS(...)  // likewise for elements written by hand
#endif
#define MILLRACE_UNIQUE(stem) MILLRACE_JOIN(stem, __COUNTER__)
#define MILLRACE_JOIN(a, b) MILLRACE_PASTE(a, b)
#define MILLRACE_PASTE(a, b) a##b

}  // namespace millrace

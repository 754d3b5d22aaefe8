// The backend's own elements (portable.h) as kernels that a queue submits.
#pragma once

#include <type_traits>

#include "millrace/kernels/kernel.h"
#include "run_on_host.h"

namespace millrace::cuda {
namespace detail {

struct UseCollector {
  std::vector<MemoryUse> uses;
  void read(const void* memory, std::size_t bytes) { uses.push_back({memory, bytes, false}); }
  void write(const void* memory, std::size_t bytes) { uses.push_back({memory, bytes, true}); }
};

template <class Element>
std::vector<MemoryUse> uses_of(const void* element) {
  UseCollector collector;
  static_cast<const Element*>(element)->accesses(collector);
  return std::move(collector.uses);
}

template <class Element>
void run_whole(const void* element, std::int64_t, std::int64_t) {
  millrace::cuda::run_on_host(*static_cast<const Element*>(element));
}

inline std::int64_t one_unit(const void*) { return 1; }

}  // namespace detail

template <class Element>
requires std::is_trivially_copyable_v<Element>
inline constexpr Kernel kernel_of{
    Element::kName,          sizeof(Element), detail::uses_of<Element>, detail::one_unit, detail::run_whole<Element>,
    device_launcher<Element>};

}  // namespace millrace::cuda

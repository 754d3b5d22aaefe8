// Runs elements of the forms `each` and `groups` on a processor: a group is one thread, its lanes a loop.
#pragma once

#include <algorithm>
#include <cstdint>

#include "millrace/kernels/kernel.h"
#include "millrace/kernels/vectorised.h"

namespace millrace {
namespace detail {

inline constexpr std::int64_t kEachUnit = 1024;  // elements of form `each` in a unit of work

struct OneLane {  // a group (kernel.h) of one thread
  int lane() const { return 0; }
  int size() const { return 1; }
  template <class T>
  T sum(T value) const {
    return value;
  }
};

template <class Element>
std::vector<MemoryUse> element_uses(const void* erased) {
  return static_cast<const Element*>(erased)->uses();
}
template <class Element>
std::int64_t each_units(const void* erased) {
  return (static_cast<const Element*>(erased)->size() + kEachUnit - 1) / kEachUnit;
}
template <class Element>
void run_each_on_host(const void* erased, std::int64_t first, std::int64_t last) {
  const auto& element = *static_cast<const Element*>(erased);
  const std::int64_t end = std::min(last * kEachUnit, element.size());
  vectorised([&] {
    for (std::int64_t i = first * kEachUnit; i < end; ++i) element(i);
  });
}
template <class Element>
std::int64_t group_units(const void* erased) {
  return static_cast<const Element*>(erased)->size();
}
template <class Element>
void run_groups(const void* erased, std::int64_t first, std::int64_t last) {
  const auto& element = *static_cast<const Element*>(erased);
  vectorised([&] {
    for (std::int64_t i = first; i < last; ++i) element(OneLane(), i);
  });
}

}  // namespace detail

// The kernel for an Element { kForm = Form::each; kName; size(); operator()(i); std::vector<MemoryUse> uses() }.
template <class Element>
inline constexpr Kernel each_kernel{Element::kName,
                                    sizeof(Element),
                                    detail::element_uses<Element>,
                                    detail::each_units<Element>,
                                    detail::run_each_on_host<Element>,
                                    device_launcher<Element>};

// The kernel for an Element { kForm = Form::groups; kName; kThreads; size(); operator()(group, i); std::vector<MemoryUse> uses()
// }.
template <class Element>
inline constexpr Kernel group_kernel{Element::kName,
                                     sizeof(Element),
                                     detail::element_uses<Element>,
                                     detail::group_units<Element>,
                                     detail::run_groups<Element>,
                                     device_launcher<Element>};

}  // namespace millrace

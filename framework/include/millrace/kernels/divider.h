// Division by a fixed number through a product and a shift, which vectorise with the loop around them. Granlund and Montgomery
// 1994, "Division by invariant integers using multiplication".
//
//   struct Shuffle {
//     Divider groups;
//     ... c / groups ... c % groups ...
//   };
#pragma once

#include <cstdint>

#include "millrace/kernels/kernel.h"

namespace millrace {

class Divider {
 public:
  Divider() = default;                // by 1
  explicit Divider(std::int64_t by);  // REQUIRES: 1 <= by < 2^31

  MILLRACE_KERNEL std::int32_t by() const { return by_; }
  // REQUIRES: n >= 0
  MILLRACE_KERNEL std::int32_t quotient(std::int32_t n) const {
    return static_cast<std::int32_t>((static_cast<std::uint64_t>(static_cast<std::uint32_t>(n)) * multiplier_) >> shift_);
  }
  MILLRACE_KERNEL std::int32_t remainder(std::int32_t n) const { return n - quotient(n) * by_; }

 private:
  std::int32_t by_ = 1;
  std::uint32_t multiplier_ = 1U << 31;  // 2^shift / by, rounded up; shift = 31 + log2 of by, rounded up
  std::int32_t shift_ = 31;
};

inline Divider::Divider(std::int64_t by) : by_(static_cast<std::int32_t>(by)) {
  while ((std::int64_t{1} << (shift_ - 31)) < by) ++shift_;
  const std::uint64_t divisor = static_cast<std::uint64_t>(by);
  multiplier_ = static_cast<std::uint32_t>(((std::uint64_t{1} << shift_) + divisor - 1) / divisor);
}

MILLRACE_KERNEL std::int32_t operator/(std::int32_t n, const Divider& by) { return by.quotient(n); }
MILLRACE_KERNEL std::int32_t operator%(std::int32_t n, const Divider& by) { return by.remainder(n); }

}  // namespace millrace

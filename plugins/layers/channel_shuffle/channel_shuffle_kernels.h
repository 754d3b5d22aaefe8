#pragma once

#include "millrace/kernels/divider.h"

namespace millrace::layers {

// x -> y: channel i of group g becomes channel i * groups + g. Swapping `groups` and `together` inverts it.
struct ChannelShuffleKernel {
  static constexpr bool kGather = true;
  static constexpr int kReads = 1;
  Divider groups;
  std::int32_t together;  // channels per group
  template <class From>
  MILLRACE_KERNEL auto operator()(const From& from, std::int32_t y, std::int32_t x) const {
    return [place = from(0, y, x), kernel = *this](std::int32_t c) {
      return place(c % kernel.groups * kernel.together + c / kernel.groups);
    };
  }
};

MILLRACE_KERNELS(ChannelShuffleKernel)

}  // namespace millrace::layers

#include "weight_layout.h"

namespace millrace::cuda {
namespace {

template <class Call>  // call(index in the network's order, index in memory)
void for_each_element(const WeightLayout& at, const Call& call) {
  for (std::int64_t o = 0; o < at.out; ++o) {
    for (std::int64_t i = 0; i < at.in; ++i) {
      for (std::int64_t h = 0; h < at.height; ++h) {
        for (std::int64_t w = 0; w < at.width; ++w) {
          call(static_cast<std::size_t>(((o * at.in + i) * at.height + h) * at.width + w),
               static_cast<std::size_t>(((o * at.height + h) * at.width + w) * at.in_pitch + i));
        }
      }
    }
  }
}

}  // namespace

std::vector<float> to_memory(const WeightLayout& layout, std::span<const float> values) {
  std::vector<float> memory(layout.elements(), 0.0F);
  for_each_element(layout, [&](std::size_t from, std::size_t to) { memory[to] = values[from]; });
  return memory;
}

std::vector<float> from_memory(const WeightLayout& layout, std::span<const float> memory) {
  std::vector<float> values(static_cast<std::size_t>(layout.out * layout.in * layout.height * layout.width));
  for_each_element(layout, [&](std::size_t to, std::size_t from) { values[to] = memory[from]; });
  return values;
}

}  // namespace millrace::cuda

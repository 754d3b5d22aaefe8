#include "view_sum.h"

namespace millrace::cpu {

std::size_t ViewSum::bytes(const Network& network, std::uint32_t samples) {
  return samples * static_cast<std::size_t>(network.output().elements()) * sizeof(float);
}

void ViewSum::begin(const Map& output) {
  const std::size_t needed = static_cast<std::size_t>(output.elements()) * sizeof(float);
  if (needed > memory_.bytes()) reserve(needed);
  sum_ = Map::channels_last(memory_.as<float>(), DataType::f32, output.n, output.channels, output.height, output.width);
  zero(sum_);
}

}  // namespace millrace::cpu

#include "kernels/isa/lanes.h"

namespace millrace::cpu::MILLRACE_ISA {
namespace {

constexpr std::size_t kLanes = 16;

// Calls body(lanes, first) for every sixteen elements of an array; the last may be fewer.
template <class Body>
void for_each_vector(std::size_t elements, const Body& body) {
  const auto whole = static_cast<std::int64_t>(elements / kLanes);
#pragma omp parallel for schedule(static) if (whole > 1024)
  for (std::int64_t i = 0; i < whole; ++i) body(Whole{}, static_cast<std::size_t>(i) * kLanes);
  const std::size_t rest = elements % kLanes;
  if (rest != 0) body(Part{static_cast<int>(rest), false}, elements - rest);
}

}  // namespace

void blend(float* value, float* copy, double decay, bool write_back, std::size_t elements) {
  const auto keep = static_cast<float>(decay), take = static_cast<float>(1 - decay);
  for_each_vector(elements, [=](auto lanes, std::size_t i) {
    const v16 blended = keep * lanes.get(copy + i) + take * lanes.get(value + i);
    lanes.put(copy + i, blended);
    if (write_back) lanes.put(value + i, blended);
  });
}

void sum(float* to, const float* const* from, std::size_t sources, std::size_t elements) {
  for_each_vector(elements, [=](auto lanes, std::size_t i) {
    v16 total{};
    for (std::size_t source = 0; source < sources; ++source) {
      const v16 value = lanes.get(from[source] + i);
      total = source == 0 ? value : total + value;
    }
    lanes.put(to + i, total);
  });
}

void to_bf16(const float* from, std::uint16_t* to, std::size_t elements) {
  for_each_vector(elements, [=](auto lanes, std::size_t i) { lanes.put(to + i, lanes.get(from + i)); });
}

void to_f32(const std::uint16_t* from, float* to, std::size_t elements) {
  for_each_vector(elements, [=](auto lanes, std::size_t i) { lanes.put(to + i, lanes.get(from + i)); });
}

}  // namespace millrace::cpu::MILLRACE_ISA

// Portable ReLU and softmax beside this backend's own, in turns: portable speed / native speed, medians.
//   cpu_portable_bench [threads] [batch]
#include <fmt/format.h>
#include <omp.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <vector>

#include "kernels/kernels.h"
#include "kernels/rearrange.h"
#include "kernels/run_kernel.h"
#include "millrace/portable.h"

namespace millrace::cpu {
namespace {

struct Relu {
  MILLRACE_KERNEL float operator()(float x) const { return x < 0 ? 0.0F : x; }
};
struct Softmax {
  static constexpr int kReads = 1, kWrites = 1;
  template <class Row>
  MILLRACE_KERNEL void operator()(Row& row) const {
    const float largest = row.largest([&](auto c) { return row.in(0, c); });
    const float sum = row.sum([&](auto c) { return math::exp(row.in(0, c) - largest); });
    row.each([&](auto c) { row.out(0, c, math::exp(row.in(0, c) - largest) / sum); });
  }
};

double seconds_of(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2), values.end());
  return values[values.size() / 2];
}

std::vector<std::uint8_t> memory_for(const Map& map) {
  std::vector<std::uint8_t> bytes(static_cast<std::size_t>(map.n * map.stride_n) * size_of(map.type));
  for (std::size_t i = 0; i < bytes.size() / size_of(map.type); ++i) {
    const float value = static_cast<float>(static_cast<std::int64_t>(i * 7919 % 2001) - 1000) / 300;
    if (map.type == DataType::bf16)
      reinterpret_cast<std::uint16_t*>(bytes.data())[i] = to_bf16(value);
    else
      reinterpret_cast<float*>(bytes.data())[i] = value;
  }
  return bytes;
}

template <class F>
PortableElement element_of(const Map& x, const Map& y) {
  PortableElement element;
  element.kernel = &portable_kernel<F>();
  element.n = x.n;
  element.pixels = x.pixels();
  element.channels = x.channels;
  element.reads = element.writes = 1;
  for (std::size_t t = 0; t < 2; ++t) {
    const Map& map = t == 0 ? x : y;
    TensorView& view = element.tensors[t];
    view.data = map.data;
    view.type = map.type;
    view.stride_n = map.stride_n;
    view.stride_pixel = map.stride_pixel;
    view.stride_block = map.stride_block;
    view.padded = map.padded ? map.blocks() * Map::kLanes : map.channels;
  }
  return element;
}

void compare(const char* name, const std::function<void()>& native, const std::function<void()>& portable) {
  constexpr int kPairs = 15;
  std::vector<double> ratios, times;
  for (int i = 0; i < kPairs; ++i) {
    const double ours = seconds_of(native), theirs = seconds_of(portable);
    ratios.push_back(ours / theirs);
    times.push_back(ours);
  }
  fmt::print("  {:<34} native {:8.3f} ms, portable at {:.2f} of its speed\n", name, 1e3 * median(times), median(ratios));
}

void bench(bool blocked, DataType type, std::int64_t n, std::int64_t channels, std::int64_t size) {
  const auto shape = [&](void* data) {
    return blocked ? Map::blocked(data, type, n, channels, size, size) : Map::channels_last(data, type, n, channels, size, size);
  };
  std::vector<std::uint8_t> from = memory_for(shape(nullptr)), to = memory_for(shape(nullptr));
  const Map x = shape(from.data()), y = shape(to.data());
  fmt::print("{}, {}, {} x {} x {} x {}\n", blocked ? "blocked" : "channels last", to_string(type), n, channels, size, size);
  const PortableElement relu = element_of<Relu>(x, y), rows = element_of<Softmax>(x, y);
  compare(
      "relu", [&] { kernels().activate(Activation::relu, x, y); }, [&] { run_kernel(relu.kernel->first, &relu); });
  compare(
      "softmax", [&] { softmax(x, y); }, [&] { run_kernel(rows.kernel->first, &rows); });
}

}  // namespace
}  // namespace millrace::cpu

int main(int argc, char** argv) {
  using namespace millrace;
  if (argc > 1) omp_set_num_threads(std::atoi(argv[1]));
  const std::int64_t batch = argc > 2 ? std::atoi(argv[2]) : 64;
  for (const bool blocked : {true, false}) {
    for (const DataType type : {DataType::f32, DataType::bf16}) {
      for (const std::int64_t channels : {24, 64, 256}) cpu::bench(blocked, type, batch, channels, 28);
    }
  }
  return 0;
}

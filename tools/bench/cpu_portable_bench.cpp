// A portable ReLU compared with this backend's own, alternating, over maps within caches and larger ones: portable speed / native
// speed, medians of pairs.
//   cpu_portable_bench [threads]
#include <fmt/format.h>
#include <omp.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "kernels/kernels.h"
#include "kernels/run_kernel.h"
#include "millrace/kernels/portable.h"

namespace millrace::cpu {
namespace {

struct Relu {
  MILLRACE_KERNEL float operator()(float x) const { return x < 0 ? 0.0F : x; }
};

double seconds_of(const std::function<void()>& work, int times) {
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < times; ++i) work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() / times;
}

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2), values.end());
  return values[values.size() / 2];
}

struct alignas(64) Line {
  std::array<std::byte, 64> bytes;
};

std::vector<Line> memory_for(const Map& map) {
  const auto count = static_cast<std::size_t>(map.n * map.stride_n);
  std::vector<Line> lines(count * size_of(map.type) / sizeof(Line) + 1);
  for (std::size_t i = 0; i < count; ++i) {
    const float value = static_cast<float>(static_cast<std::int64_t>(i * 7919 % 2001) - 1000) / 300;
    if (map.type == DataType::bf16)
      reinterpret_cast<std::uint16_t*>(lines.data())[i] = to_bf16(value);
    else
      reinterpret_cast<float*>(lines.data())[i] = value;
  }
  return lines;
}

template <class F>
PortableElement element_of(const Map& x, const Map& y) {
  PortableElement element{.kernel = &portable_kernel<F>(), .n = x.n, .pixels = x.pixels(), .channels = x.channels};
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

void compare(const std::string& name, const std::function<void()>& native, const std::function<void()>& portable) {
  constexpr int kPairs = 101;
  constexpr double kTimed = 3e-4;  // approximate seconds for half of a pair: short, so that few are interrupted
  const int calls = std::clamp(static_cast<int>(kTimed / seconds_of(native, 2)), 1, 10000);
  std::vector<double> ratios, times;
  for (int i = 0; i < kPairs; ++i) {
    const double ours = seconds_of(native, calls), theirs = seconds_of(portable, calls);
    ratios.push_back(ours / theirs);
    times.push_back(ours);
  }
  fmt::print("  {:<48} native {:8.4f} ms, portable at {:.2f} of its speed\n", name, 1e3 * median(times), median(ratios));
}

void bench(bool blocked, DataType type, std::int64_t n, std::int64_t channels, std::int64_t size) {
  const auto shape = [&](void* data) {
    return blocked ? Map::blocked(data, type, n, channels, size, size) : Map::channels_last(data, type, n, channels, size, size);
  };
  std::vector<Line> from = memory_for(shape(nullptr)), to = memory_for(shape(nullptr));
  const Map x = shape(from.data()), y = shape(to.data());
  const PortableElement relu = element_of<Relu>(x, y);
  compare(
      fmt::format("{}, {}, {} x {} x {} x {}", blocked ? "blocked" : "channels last", to_string(type), n, channels, size, size),
      [&] { kernels().activate(Activation::relu, x, y); }, [&] { run_kernel(relu.kernel->first, &relu); });
}

}  // namespace
}  // namespace millrace::cpu

int main(int argc, char** argv) {
  using namespace millrace;
  if (argc > 1) omp_set_num_threads(std::atoi(argv[1]));
  for (const bool blocked : {true, false}) {
    for (const DataType type : {DataType::f32, DataType::bf16}) {
      for (const std::int64_t batch : {2, 16, 64}) {
        for (const std::int64_t channels : {20, 64, 256}) cpu::bench(blocked, type, batch, channels, 28);
      }
    }
  }
  return 0;
}

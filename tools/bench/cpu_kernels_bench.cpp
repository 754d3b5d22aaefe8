// GB/s of each kernel at the shapes of the airbench network, batch 256: bytes that must move, over the best time of several.
//   kernels_bench [threads] [batch]
#include <fmt/format.h>
#include <omp.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <ctime>
#include <functional>
#include <memory>
#include <new>
#include <vector>

#include "kernels/kernels.h"

namespace millrace::cpu {
namespace {

struct Memory {
  explicit Memory(Map shape) : map(shape), bytes(static_cast<std::size_t>(map.n * map.stride_n) * size_of(map.type)) {
    data.reset(static_cast<std::uint8_t*>(::operator new[](bytes, std::align_val_t{64})));
    map.data = data.get();
    const auto count = static_cast<std::int64_t>(bytes / size_of(map.type));
    for (std::int64_t i = 0; i < count; ++i) {
      const float value = static_cast<float>((i * 7919) % 2001 - 1000) / 300;
      if (map.type == DataType::bf16) {
        static_cast<std::uint16_t*>(map.data)[i] = to_bf16(value);
      } else {
        static_cast<float*>(map.data)[i] = value;
      }
    }
  }
  struct Deleter {
    void operator()(std::uint8_t* memory) const { ::operator delete[](memory, std::align_val_t{64}); }
  };
  Map map;
  std::size_t bytes;
  std::unique_ptr<std::uint8_t[], Deleter> data;
};

// With one thread, the processor's time: a machine that is busy with something else disturbs it less.
double seconds() {
  if (omp_get_max_threads() == 1) return static_cast<double>(std::clock()) / CLOCKS_PER_SEC;
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

void report(const char* name, std::size_t bytes, const std::function<void()>& work) {
  double best = 1e30;
  for (int i = 0; i < 7; ++i) {
    const double start = seconds();
    work();
    best = std::min(best, seconds() - start);
  }
  fmt::print("  {:<26} {:8.2f} ms {:7.1f} GB/s\n", name, best * 1e3, static_cast<double>(bytes) / best * 1e-9);
}

void bench(const Kernels& k, bool blocked, DataType type, std::int64_t n) {
  const auto make = [&](std::int64_t channels, std::int64_t size) {
    return Memory(blocked ? Map::blocked(nullptr, type, n, channels, size, size)
                          : Map::channels_last(nullptr, type, n, channels, size, size));
  };
  fmt::print("{}, {}, {}\n", k.instruction_set, blocked ? "blocked" : "channels last", to_string(type));
  {
    Memory x = make(24, 31), y = make(24, 31);
    std::vector<float> bias(24);
    report("gelu 24x31x31", 2 * x.bytes, [&] { k.activate(Activation::gelu, x.map, y.map); });
    report("gelu backward to bias", 2 * x.bytes,
           [&] { k.activate_backward(Activation::gelu, x.map, y.map, nullptr, bias.data()); });
  }
  const struct { std::int64_t channels, size, window; } groups[] = {{64, 31, 2}, {256, 15, 2}, {256, 7, 2}};
  for (const auto& g : groups) {
    const PoolWindow window{g.window, g.window, g.window, g.window};
    Memory x = make(g.channels, g.size), y = make(g.channels, g.size / g.window), dy = make(g.channels, g.size / g.window),
           z = make(g.channels, g.size / g.window);
    std::vector<std::uint8_t> index(static_cast<std::size_t>(n * y.map.blocks() * y.map.pixels() * 16));
    std::vector<float> mean(static_cast<std::size_t>(g.channels)), variance = mean, shift = mean, d_scale = mean, d_shift = mean;
    fmt::print(" {} x {} x {}\n", g.channels, g.size, g.size);
    report("max_pool + statistics", x.bytes + y.bytes + index.size(),
           [&] { k.max_pool(window, x.map, y.map, index.data(), mean.data(), variance.data()); });
    report("max_pool_backward", x.bytes + y.bytes + index.size(),
           [&] { k.max_pool_backward(window, index.data(), dy.map, x.map); });
    report("batch_statistics", y.bytes, [&] { k.batch_statistics(y.map, mean.data(), variance.data()); });
    report("normalise + gelu", 2 * y.bytes, [&] {
      k.normalise({y.map, z.map, mean.data(), variance.data(), 1e-5F, nullptr, shift.data(), Activation::gelu, nullptr});
    });
    const NormaliseBackwardArguments backward{y.map,   dy.map,       mean.data(),      variance.data(), 1e-5F,
                                              nullptr, shift.data(), Activation::gelu, nullptr,         nullptr};
    report("normalise backward: sums", 2 * y.bytes,
           [&] { k.normalise_backward_sums(backward, d_shift.data(), d_scale.data(), nullptr); });
    report("normalise backward: dx", 3 * y.bytes,
           [&] { k.normalise_backward(backward, d_shift.data(), d_scale.data(), 1e5, z.map); });
    report("... with unpooling", x.bytes + 2 * y.bytes + index.size(),
           [&] { k.normalise_backward_unpool(backward, d_shift.data(), d_scale.data(), 1e5, window, index.data(), x.map); });
  }
  std::vector<float> value(2000000), copy(value.size());
  report("blend, 2 M parameters", value.size() * 16, [&] { k.blend(value.data(), copy.data(), 0.9, true, value.size()); });
}

}  // namespace
}  // namespace millrace::cpu

int main(int argc, char** argv) {
  using namespace millrace;
  if (argc > 1) omp_set_num_threads(std::atoi(argv[1]));
  const std::int64_t batch = argc > 2 ? std::atoi(argv[2]) : 256;
  for (const bool blocked : {true, false}) {
    for (const DataType type : {DataType::f32, DataType::bf16}) {
      cpu::bench(cpu::kernels(), blocked, type, batch);
    }
  }
  return 0;
}

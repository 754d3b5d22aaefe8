// GB/s of each kernel at the shapes of the airbench network, batch 256: bytes that must move, over the best time of several. Then
// convolutions: depthwise ones of ConvNeXt, MobileNet and EfficientNet, and in bf16 those of 3x3 windows by Winograd's algorithm,
// of U-Net and ResNet. Ours compared with oneDNN's; takes_own_depthwise() and takes_winograd() (plugins/backends/cpu/convolution)
// choose the layers for ours.
//   cpu_kernels_bench [threads] [batch] [depthwise | winograd]    `depthwise`, `winograd`: only these
#include <fmt/format.h>
#include <omp.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <new>
#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "kernels/kernels.h"
#include "map_spec.h"
#include "primitives.h"

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

// With one thread, processor time, which other load disturbs less.
double seconds() {
  if (omp_get_max_threads() == 1) return static_cast<double>(std::clock()) / CLOCKS_PER_SEC;
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double best_of_several(const std::function<void()>& work) {
  double best = 1e30;
  for (int i = 0; i < 7; ++i) {
    const double start = seconds();
    work();
    best = std::min(best, seconds() - start);
  }
  return best;
}

void report(const char* name, std::size_t bytes, const std::function<void()>& work) {
  const double best = best_of_several(work);
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

struct ConvShape {
  const char* network;
  std::int64_t batch, in, out, height, width, kernel = 3, stride = 1;
  bool depthwise = false;
  // Padding is half the kernel.
  std::int64_t out_height() const { return (height - 1) / stride + 1; }
  std::int64_t out_width() const { return (width - 1) / stride + 1; }
};
constexpr ConvShape depthwise_shape(const char* network, std::int64_t channels, std::int64_t size, std::int64_t kernel,
                                    std::int64_t stride) {
  return {network, 8, channels, channels, size, size, kernel, stride, true};
}
constexpr ConvShape kDepthwise[] = {
    depthwise_shape("convnext_tiny", 96, 56, 7, 1),    depthwise_shape("convnext_tiny", 192, 28, 7, 1),
    depthwise_shape("convnext_tiny", 384, 14, 7, 1),   depthwise_shape("convnext_tiny", 768, 7, 7, 1),
    depthwise_shape("mobilenet_v2", 96, 112, 3, 2),    depthwise_shape("mobilenet_v2", 144, 56, 3, 1),
    depthwise_shape("mobilenet_v2", 384, 14, 3, 1),    depthwise_shape("mobilenet_v2", 576, 14, 3, 2),
    depthwise_shape("efficientnet_b0", 144, 56, 5, 2), depthwise_shape("efficientnet_b0", 240, 28, 5, 1),
    depthwise_shape("efficientnet_b0", 672, 14, 5, 1),
};
constexpr ConvShape kWinograd[] = {
    {"unet", 8, 32, 32, 180, 240},     {"unet", 8, 64, 32, 180, 240},      {"unet", 8, 64, 64, 90, 120},
    {"unet", 8, 128, 128, 45, 60},     {"unet", 8, 256, 256, 22, 30},      {"resnet", 32, 64, 64, 56, 56},
    {"resnet", 32, 128, 128, 28, 28},  {"resnet", 32, 256, 256, 14, 14},   {"resnet", 32, 512, 512, 7, 7},
    {"airbench", 256, 64, 64, 31, 31}, {"airbench", 256, 256, 256, 15, 15}};

// Seconds of forward, backward to the data, backward to the weights.
struct ThreeTimes {
  double forward, data, weights;
};

struct ConvMaps {
  ConvMaps(const ConvShape& s, Layout layout, DataType type)
      : in{s.batch, s.in, s.height, s.width, type, layout},
        out{s.batch, s.out, s.out_height(), s.out_width(), type, layout},
        x(in.map(nullptr)),
        dx(x.map),
        y(out.map(nullptr)),
        dy(y.map) {}
  MapSpec in, out;
  Memory x, dx, y, dy;
};
Memory floats(std::size_t count) {
  return Memory(Map::channels_last(nullptr, DataType::f32, 1, static_cast<std::int64_t>(count)));
}

ThreeTimes times_of_depthwise(const ConvShape& s, ConvMaps& maps) {
  const Kernels& k = kernels();
  const PoolWindow window{s.kernel, s.kernel, s.stride, s.stride, s.kernel / 2, s.kernel / 2};
  const Memory weights(Map::blocked(nullptr, maps.x.map.type, 1, s.in, s.kernel, s.kernel));
  const Memory d_weights(Map::blocked(nullptr, DataType::f32, 1, s.in, s.kernel, s.kernel));
  return {best_of_several([&] { k.depthwise(window, maps.x.map, weights.map.data, nullptr, false, maps.y.map); }),
          best_of_several([&] { k.depthwise_backward_data(window, maps.dy.map, weights.map.data, maps.dx.map); }),
          best_of_several(
              [&] { k.depthwise_backward_weights(window, maps.x.map, maps.dy.map, static_cast<float*>(d_weights.map.data)); })};
}

// Includes the transformation of the weights, unlike oneDNN's times.
ThreeTimes times_of_winograd(const ConvShape& s, ConvMaps& maps) {
  const WinogradKernels& k = *kernels().winograd(maps.in.type);
  const WinogradShape shape{s.in, s.out, 1, 1};
  const Memory weights = floats(static_cast<std::size_t>(s.in * s.out * 9)), d_weights(weights.map);
  const Memory transformed = floats(k.transformed_bytes(shape) / sizeof(float)),
               sums = floats(k.backward_floats(shape, maps.dy.map));
  void* const values = transformed.map.data;
  const auto convolve = [&](bool backward) {
    k.transform_weights(shape, static_cast<float*>(weights.map.data), backward, values);
    backward ? k.convolve(shape.backward(), maps.dy.map, values, nullptr, false, maps.dx.map)
             : k.convolve(shape, maps.x.map, values, nullptr, false, maps.y.map);
  };
  return {best_of_several([&] { convolve(false); }), best_of_several([&] { convolve(true); }), best_of_several([&] {
            k.backward_weights(shape, maps.x.map, maps.dy.map, static_cast<float*>(sums.map.data),
                               static_cast<float*>(d_weights.map.data));
          })};
}

// With weights in oneDNN's preferred layout.
ThreeTimes times_of_dnnl(const ConvShape& s, ConvMaps& maps, const dnnl::engine& engine, dnnl::algorithm how) {
  using dnnl::memory;
  const memory::dims strides(2, s.stride), dilates(2, 0), padding(2, s.kernel / 2);
  const memory::desc x = maps.in.desc(), y = maps.out.desc(), none;
  const memory::dims extents =
      s.depthwise ? memory::dims{s.in, 1, 1, s.kernel, s.kernel} : memory::dims{s.out, s.in, s.kernel, s.kernel};
  const memory::desc weights(extents, to_dnnl(maps.in.type), memory::format_tag::any);
  const memory::desc d_weights(extents, memory::data_type::f32, memory::format_tag::any);
  const auto forward = describe<dnnl::convolution_forward>(engine, attributes(), dnnl::prop_kind::forward_training, how, x,
                                                           weights, none, y, strides, dilates, padding, padding);
  const auto data =
      describe_backward<dnnl::convolution_backward_data>(engine, forward, how, x, weights, y, strides, dilates, padding, padding);
  const auto to_weights = describe_backward<dnnl::convolution_backward_weights>(engine, forward, how, x, d_weights, none, y,
                                                                                strides, dilates, padding, padding);
  dnnl::stream stream(engine);
  const auto zeros = [&](const memory::desc& desc) {
    memory made(desc, engine);
    if (desc.get_size() > 0) std::memset(made.get_data_handle(), 0, desc.get_size());
    return made;
  };
  const auto time_of = [&](const auto& primitive, const auto& desc, std::unordered_map<int, memory> arguments) {
    arguments.emplace(DNNL_ARG_SCRATCHPAD, zeros(desc.scratchpad_desc()));
    return best_of_several([&] {
      primitive.execute(stream, arguments);
      stream.wait();
    });
  };
  const memory source(x, engine, maps.x.map.data), d_source(x, engine, maps.dx.map.data);
  const memory result(y, engine, maps.y.map.data), d_result(y, engine, maps.dy.map.data);
  return {time_of(dnnl::convolution_forward(forward), forward,
                  {{DNNL_ARG_SRC, source}, {DNNL_ARG_WEIGHTS, zeros(forward.weights_desc())}, {DNNL_ARG_DST, result}}),
          time_of(dnnl::convolution_backward_data(data), data,
                  {{DNNL_ARG_DIFF_SRC, d_source}, {DNNL_ARG_WEIGHTS, zeros(data.weights_desc())}, {DNNL_ARG_DIFF_DST, d_result}}),
          time_of(dnnl::convolution_backward_weights(to_weights), to_weights,
                  {{DNNL_ARG_SRC, source},
                   {DNNL_ARG_DIFF_WEIGHTS, zeros(to_weights.diff_weights_desc())},
                   {DNNL_ARG_DIFF_DST, d_result}})};
}

template <class Times>
void bench_convolutions(const char* what, std::span<const ConvShape> shapes, Layout layout, DataType type, const Times& times,
                        dnnl::algorithm how = dnnl::algorithm::convolution_direct) {
  const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  fmt::print("{}, {}, {}: ms of forward, to the data, to the weights; ours, oneDNN, oneDNN / ours\n", what,
             layout == Layout::blocked ? "blocked" : "channels last", to_string(type));
  for (const ConvShape& s : shapes) {
    ConvMaps maps(s, layout, type);
    const ThreeTimes own = times(s, maps);
    fmt::print("  {:<15} {:3} x {:3} -> {:3} x {:3} x {:3}, {}x{} / {} {:7.2f} {:7.2f} {:7.2f}", s.network, s.batch, s.in, s.out,
               s.height, s.width, s.kernel, s.kernel, s.stride, own.forward * 1e3, own.data * 1e3, own.weights * 1e3);
    try {
      const ThreeTimes other = times_of_dnnl(s, maps, engine, how);
      fmt::print("  {:7.2f} {:7.2f} {:7.2f}  {:5.2f} {:5.2f} {:5.2f}\n", other.forward * 1e3, other.data * 1e3,
                 other.weights * 1e3, other.forward / own.forward, other.data / own.data, other.weights / own.weights);
    } catch (const dnnl::error& error) {
      fmt::print("  oneDNN: {}\n", error.what());
    }
  }
}

}  // namespace
}  // namespace millrace::cpu

int main(int argc, char** argv) {
  using namespace millrace;
  if (argc > 1) omp_set_num_threads(std::atoi(argv[1]));
  const std::int64_t batch = argc > 2 ? std::atoi(argv[2]) : 256;
  const std::string_view alone = argc > 3 ? argv[3] : "";
  for (const bool blocked : {true, false}) {
    for (const DataType type : {DataType::f32, DataType::bf16}) {
      const cpu::Layout layout = blocked ? cpu::Layout::blocked : cpu::Layout::channels_last;
      if (alone.empty()) cpu::bench(cpu::kernels(), blocked, type, batch);
      if (type == DataType::bf16 && !cpu::kernels().bf16) continue;
      if (alone != "winograd") cpu::bench_convolutions("depthwise", cpu::kDepthwise, layout, type, cpu::times_of_depthwise);
      if (alone == "depthwise" || cpu::kernels().winograd(type) == nullptr) continue;
      cpu::bench_convolutions("Winograd", cpu::kWinograd, layout, type, cpu::times_of_winograd);
      if (type != DataType::f32) continue;
      cpu::bench_convolutions("Winograd, against oneDNN's own", cpu::kWinograd, layout, type, cpu::times_of_winograd,
                              dnnl::algorithm::convolution_winograd);
    }
  }
  return 0;
}

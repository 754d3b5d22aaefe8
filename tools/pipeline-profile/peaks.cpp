#include "peaks.h"

#include <algorithm>
#include <chrono>
#include <thread>
#include <vector>

#include "network/load.h"
#include "prepare/devices.h"
#include "toml/document.h"

namespace millrace {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

// Images in memory.
struct HeldBatch : Batch {
  HeldBatch(std::uint32_t size, const ImageShape& shape)
      : pixel_data(size * shape.bytes(), 100), record_data(size), label_data(size, 0), weight_data(size, 1.0F) {
    count = size;
    global_count = size;
    weight = size;
    image = window = shape;
    pixels = pixel_data.data();
    records = record_data.data();
    labels = label_data.data();
    weights = weight_data.data();
  }
  std::vector<std::uint8_t> pixel_data;
  std::vector<AugmentationRecord> record_data;
  std::vector<std::int32_t> label_data;
  std::vector<float> weight_data;
};

// A square matrix of weights times one of samples: large enough for a library's peak.
double multiply(Device& device, Precision precision, const Registry& registry) {
  constexpr int kSide = 32;  // side of the image, with one channel: the matrix side is its square, 1024
  constexpr std::uint32_t kSamples = 1024;
  constexpr double kLeastSeconds = 0.1;
  Diagnostics errors;
  constexpr std::string_view kNetwork = R"(
input  = { channels = 1, height = 32, width = 32 }
layers = [{ op = "linear", out = 1024 }, { op = "linear", out = 1024 }]
)";
  const std::optional<Value> document = parse_toml(kNetwork, "peaks", errors);
  const std::shared_ptr<const Network> network = build_network(document.value(), "peaks", Value(), registry, errors);
  errors.throw_if_any();
  CompileOptions options;
  options.infer_batch = kSamples;
  options.precision = precision;
  options.time_layers = true;
  const std::unique_ptr<Replica> replica = device.compile(*network, options);
  replica->start();
  const Ref<Batch> batch(new HeldBatch(kSamples, {kSide, kSide, 1}));
  StepSums sums;
  const Clock::time_point begin = Clock::now();
  const auto best = [&] {
    double seconds = 0;
    std::uint64_t passes = 0;
    for (const LayerTime& time : replica->layer_times()) {
      seconds += time.forward;
      passes = std::max(passes, time.passes);
    }
    return passes == 0 || seconds <= 0 ? 0 : 2.0 * 2 * 1024 * 1024 * kSamples * static_cast<double>(passes) / seconds;
  };
  double reached = 0;
  while (seconds_since(begin) < kLeastSeconds) {
    replica->infer(batch, 0, kSamples, {}, nullptr, sums);
    reached = std::max(reached, best());
  }
  return reached;
}

// a = b + s * c, on one thread per core. Two arrays are read, and one is written.
double triad_of_host() {
  constexpr std::size_t kFloats = std::size_t{8} << 20;  // per array: 32 MiB
  constexpr int kRounds = 4;
  std::vector<float> a(kFloats, 1), b(kFloats, 2), c(kFloats, 3);
  const std::size_t threads = std::max(1U, std::thread::hardware_concurrency());
  double best = 0;
  for (int round = 0; round < kRounds; ++round) {
    const Clock::time_point begin = Clock::now();
    {
      std::vector<std::jthread> team;
      for (std::size_t t = 0; t < threads; ++t) {
        team.emplace_back([&, from = kFloats * t / threads, to = kFloats * (t + 1) / threads] {
          for (std::size_t i = from; i < to; ++i) a[i] = b[i] + 3.0F * c[i];
        });
      }
    }
    best = std::max(best, 3.0 * sizeof(float) * kFloats / seconds_since(begin));
  }
  return best;
}

double triad_of_device(Device& device) {
  constexpr std::size_t kFloats = std::size_t{64} << 20;
  constexpr int kRounds = 4;
  const std::shared_ptr<std::byte> memory = device.memory(3 * sizeof(float) * kFloats, "three arrays");
  const std::unique_ptr<Stream> stream = device.make_stream("triad");
  auto* const floats = reinterpret_cast<float*>(memory.get());
  double best = 0;
  for (int round = 0; round < kRounds; ++round) {
    const Clock::time_point begin = Clock::now();
    const float* const sources[] = {floats + kFloats, floats + 2 * kFloats};
    stream->sum(floats, sources, kFloats);
    stream->record()->wait();
    best = std::max(best, 3.0 * sizeof(float) * kFloats / seconds_since(begin));
  }
  return best;
}

}  // namespace

Peaks measure_peaks(Device& device, Precision precision, const Registry& registry) {
  Peaks peaks;
  peaks.operations = multiply(device, precision, registry);
  const bool of_host = device.info().backend == kHostBackend;
  peaks.bytes = of_host ? triad_of_host() : triad_of_device(device);
  return peaks;
}

}  // namespace millrace

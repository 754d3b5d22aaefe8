#include "shortcuts.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <string_view>

#include "kernels/plain.h"
#include "layers/map_spec.h"
#include "millrace/error.h"

namespace millrace::cuda {
namespace {

struct Switch {
  std::string_view name;
  bool Shortcuts::*on;
};
constexpr std::array<Switch, 5> kSwitches = {{{"accumulate", &Shortcuts::accumulate},
                                              {"sign_bits", &Shortcuts::sign_bits},
                                              {"last_block", &Shortcuts::last_block},
                                              {"norm_pool", &Shortcuts::norm_pool},
                                              {"recordings", &Shortcuts::recordings}}};
constexpr const char* kVariable = "MILLRACE_CUDA_WITHOUT";

void switch_off(Shortcuts& shortcuts, std::string_view name) {
  for (const Switch& each : kSwitches) {
    if (each.name != name) continue;
    shortcuts.*each.on = false;
    return;
  }
  std::string known;
  for (const Switch& each : kSwitches) known += fmt::format("{}{}", known.empty() ? "" : ", ", each.name);
  fail(ErrorKind::usage, "{} names '{}'; it may name {}", kVariable, name, known);
}

// ---- The trial ----

constexpr std::int64_t kChannels = 32, kPacks = kChannels / kPack;
constexpr std::int64_t kRows = 34 * 512;  // 34 chunks, so two groups of them
constexpr PoolExtents kPooling = {.n = 1, .h = 64, .w = 68, .out_h = 32, .out_w = 34, .packs = kPacks};  // as in ResNet
constexpr PoolWindow kWindow = {.kernel_h = 3, .kernel_w = 3, .stride_h = 2, .stride_w = 2, .top = 1, .left = 1};
constexpr std::int64_t kPooled = kPooling.n * kPooling.out_h * kPooling.out_w * kChannels;
constexpr std::int64_t kRowsPooled = kPooling.n * kPooling.h * kPooling.w;
static_assert(kRowsPooled <= kRows);
using Channels = std::array<float, kChannels>;

// A batch norm with a ReLU after an addition, or before a pooling. All in device memory.
struct Scratch {
  alignas(kAlignment) Bf16 x[kRows * kChannels], residual[kRows * kChannels], dy[kRows * kChannels];
  alignas(kAlignment) Bf16 y[kRows * kChannels], masked[2][kRows * kChannels];
  alignas(kAlignment) Bf16 pooled[2][kPooled];
  alignas(kAlignment) std::uint8_t index[2][kPooled];
  alignas(kAlignment) std::uint8_t positive[kRows * kPacks];
  alignas(kAlignment) float partial[64 * 2 * kChannels];
  alignas(kAlignment) double groups[2 * 2 * kChannels];
  alignas(kAlignment) std::uint32_t tickets[kTickets];
  alignas(kAlignment) Channels mean, variance, factor;
};
// Results on the host.
struct Found {
  Channels mean, variance;
};

class Trial {
 public:
  explicit Trial(Machine& machine)
      : machine_(machine),
        memory_(machine, sizeof(Scratch), "scratch of a trial"),
        host_(machine, 3 * sizeof(Scratch::x)),
        queue_(machine.make_queue("trial")) {
    fill();
  }

  // Empty, or how the results differ.
  std::string last_block() {
    statistics(false);
    const Channels mean = found().mean, variance = found().variance;
    for (int time = 1; time <= 2; ++time) {  // tickets must be unchanged
      statistics(true);
      for (std::size_t c = 0; c < kChannels; ++c) {
        if (near(found().mean[c], mean[c]) && near(found().variance[c], variance[c])) continue;
        return fmt::format("sum {} of channel {} gives mean {} and variance {}, not {} and {}", time, c, found().mean[c],
                           found().variance[c], mean[c], variance[c]);
      }
    }
    return {};
  }
  std::string sign_bits() {
    statistics(false);
    forward();
    for (const bool bits : {false, true}) masked(bits);
    if (const auto at = difference(device().masked)) return fmt::format("the gradient of value {} is masked in another way", *at);
    return {};
  }
  std::string norm_pool() {
    statistics(false);
    pool_apart();
    pool_together();
    if (const auto at = difference(device().pooled)) return fmt::format("value {} is another", *at);
    if (const auto at = difference(device().masked, kRowsPooled * kChannels))
      return fmt::format("the gradient of value {} is another", *at);
    return {};
  }

 private:
  static bool near(float a, float b) { return std::abs(a - b) <= 1e-5F * std::max(1.0F, std::abs(b)); }
  Scratch& device() const { return *memory_.as<Scratch>(); }
  const Found& found() const { return *reinterpret_cast<const Found*>(host_.data()); }

  // Values from -2 to 2 in steps that bf16 can represent.
  void fill() {
    auto* const values = reinterpret_cast<Bf16*>(host_.data());
    machine_.host_access(host_.data(), 3 * sizeof(Scratch::x), true);
    std::uint32_t state = 1;
    for (std::int64_t i = 0; i < 3 * kRows * kChannels; ++i) {
      state = state * 1664525U + 1013904223U;
      values[i] = from_float<Bf16>(static_cast<float>(static_cast<int>(state >> 24) - 128) / 64.0F);
    }
    queue_->copy_in(device().x, host_.data(), 3 * sizeof(Scratch::x));
    machine_.finish();
  }
  void fetch(void* to, const void* from, std::size_t bytes) {
    queue_->copy_out(to, from, bytes);
    machine_.finish();
    machine_.host_access(to, bytes, false);
  }

  void statistics(bool in_last_block) {
    Scratch& d = device();
    FinishMoments<Bf16> finish;
    finish.x = d.x;
    finish.partial = d.partial;
    finish.rows = kRows;
    finish.packs = kPacks;
    finish.epsilon = 1e-5F;
    finish.mean = d.mean.data();
    finish.variance = d.variance.data();
    finish.factor = d.factor.data();
    Moments<Bf16> moments;
    moments.x = d.x;
    moments.rows = kRows;
    moments.packs = kPacks;
    moments.partial = d.partial;
    queue_->zero(d.mean.data(), sizeof(Channels) * 3);
    if (in_last_block) {
      moments.last = {d.tickets, d.groups};
      moments.finish = finish;
    }
    queue_->run(moments);
    if (!in_last_block) queue_->run(finish);
    fetch(host_.data(), d.mean.data(), 2 * sizeof(Channels));
  }
  void forward() {
    Scratch& d = device();
    Normalise<Bf16> kernel;
    kernel.x = d.x;
    kernel.residual = d.residual;
    kernel.y = d.y;
    kernel.mean = d.mean.data();
    kernel.factor = d.factor.data();
    kernel.rows = kRows;
    kernel.packs = kPacks;
    kernel.activation = Activation::relu;
    kernel.positive = d.positive;
    queue_->run(kernel);
  }
  NormaliseBackwardSums<Bf16> backward_sums(Bf16* masked, std::int64_t rows) {
    Scratch& d = device();
    NormaliseBackwardSums<Bf16> kernel;
    kernel.x = d.x;
    kernel.masked = masked;
    kernel.mean = d.mean.data();
    kernel.factor = d.factor.data();
    kernel.rows = rows;
    kernel.packs = kPacks;
    kernel.activation = Activation::relu;
    kernel.partial = d.partial;
    return kernel;
  }
  void masked(bool by_bits) {
    Scratch& d = device();
    NormaliseBackwardSums<Bf16> kernel = backward_sums(d.masked[by_bits ? 1 : 0], kRows);
    kernel.dy = d.dy;
    if (by_bits)
      kernel.positive = d.positive;
    else
      kernel.y = d.y;
    queue_->run(kernel);
  }
  void pool_apart() {
    Scratch& d = device();
    Normalise<Bf16> normalise;
    normalise.x = d.x;
    normalise.y = d.y;
    normalise.mean = d.mean.data();
    normalise.factor = d.factor.data();
    normalise.rows = kRowsPooled;
    normalise.packs = kPacks;
    normalise.activation = Activation::relu;
    queue_->run(normalise);
    queue_->run(MaxPool<Bf16>{d.y, d.pooled[0], d.index[0], kPooling, kWindow});
    queue_->run(MaxPoolBackward<Bf16>{d.dy, d.index[0], d.y, kPooling, kWindow});
    NormaliseBackwardSums<Bf16> sums = backward_sums(d.masked[0], kRowsPooled);
    sums.dy = d.y;
    queue_->run(sums);
  }
  void pool_together() {
    Scratch& d = device();
    NormaliseMaxPool<Bf16> forward;
    forward.x = d.x;
    forward.y = d.pooled[1];
    forward.index = d.index[1];
    forward.mean = d.mean.data();
    forward.factor = d.factor.data();
    forward.at = kPooling;
    forward.window = kWindow;
    queue_->run(forward);
    NormaliseBackwardSums<Bf16> sums = backward_sums(d.masked[1], kRowsPooled);
    sums.pooled = {d.dy, d.index[1], kPooling, kWindow};
    queue_->run(sums);
  }

  // The first of `count` values in which two maps of the device differ.
  template <std::size_t kCount>
  std::optional<std::size_t> difference(const Bf16 (&maps)[2][kCount], std::size_t count = kCount) {
    std::vector<std::uint16_t> bits[2];
    for (int which : {0, 1}) {
      bits[which].resize(count);
      fetch(host_.data(), maps[which], count * sizeof(Bf16));
      std::memcpy(bits[which].data(), host_.data(), count * sizeof(Bf16));
    }
    const auto differs = std::mismatch(bits[0].begin(), bits[0].end(), bits[1].begin()).first;
    return differs == bits[0].end() ? std::nullopt : std::optional(static_cast<std::size_t>(differs - bits[0].begin()));
  }

  Machine& machine_;
  DeviceMemory memory_;
  HostMemory host_;
  std::unique_ptr<Queue> queue_;  // last: its work must end before the memory is freed
};

// ---- The trial of recordings ----

constexpr int kLaunches = 4;
// The kernels before the mark take longer, about a microsecond each, than the host needs to submit the reader after it.
constexpr int kInFront = 64, kBehind = 8;
static_assert(kInFront % 2 == 0 && kBehind % 2 == 0);
constexpr std::int64_t kFloats = 1024;

// In device memory. A launch passes a number from link to link, up to the mark.
struct Chain {
  alignas(kAlignment) float links[2][kFloats];  // alternating
  alignas(kAlignment) float reached[kFloats];
};
// Pinned memory of the host, by launch.
struct Numbers {
  float sent[kLaunches];
  float reached[kLaunches];  // as seen by the recording's queue
  float seen[kLaunches];     // as seen by the reader
};

// Tests whether marks in a recording work: every update of a step waits for such a mark. Records a chain of kernels with a mark
// in the middle, launches it a few times, and reads after the mark from another queue or the host. Takes a few milliseconds.
// run() returns the error, or "", and throws Error(device) if a call fails.
class RecordingTrial {
 public:
  explicit RecordingTrial(Machine& machine)
      : machine_(machine),
        chain_(machine, sizeof(Chain), "scratch of a trial"),
        host_(machine, sizeof(Numbers)),
        queue_(machine.make_queue("trial")),
        reader_(machine.make_queue("reader of a trial")) {
    machine_.host_access(host_.data(), host_.bytes(), true);
    for (int i = 0; i < kLaunches; ++i) numbers().sent[i] = static_cast<float>(i + 1);
  }

  std::string run() {
    pass_on(kInFront);  // loads the kernel, which a recording must not do
    queue_->begin_recording();
    pass_on(kInFront);
    copy(chain().links[0], chain().reached);
    const Ref<Mark> mark = queue_->recorded_mark();
    pass_on(kBehind);
    const std::unique_ptr<Recording> recording = queue_->end_recording();
    for (int i = 0; i < kLaunches; ++i) launch(*recording, mark, i);
    machine_.finish();
    machine_.host_access(host_.data(), host_.bytes(), false);
    for (int i = 0; i < kLaunches; ++i) {
      if (numbers().seen[i] == numbers().reached[i]) continue;
      return fmt::format("{} that waited for the mark of launch {} read {} instead of {}",
                         waits_on_host(i) ? "the host" : "a queue", i + 1, numbers().seen[i], numbers().reached[i]);
    }
    return {};
  }

 private:
  static bool waits_on_host(int launch) { return launch % 2 == 1; }
  Chain& chain() const { return *chain_.as<Chain>(); }
  Numbers& numbers() const { return *reinterpret_cast<Numbers*>(host_.data()); }

  void copy(const float* from, float* to) {
    SumArrays kernel;
    kernel.sources[kernel.count++] = from;
    kernel.destination = to;
    kernel.elements = kFloats;
    queue_->run(kernel);
  }
  void pass_on(int times) {
    for (int i = 0; i < times; ++i) copy(chain().links[i % 2], chain().links[(i + 1) % 2]);
  }
  // The reader finishes before the next launch begins.
  void launch(Recording& recording, const Ref<Mark>& mark, int i) {
    queue_->copy_in(chain().links[0], &numbers().sent[i], sizeof(float));
    queue_->launch(recording);
    if (waits_on_host(i))
      mark->wait();
    else
      reader_->wait(mark);
    reader_->copy_out(&numbers().seen[i], chain().reached, sizeof(float));
    queue_->wait(reader_->mark());
    queue_->copy_out(&numbers().reached[i], chain().reached, sizeof(float));
  }

  Machine& machine_;
  DeviceMemory chain_;
  HostMemory host_;
  std::unique_ptr<Queue> queue_, reader_;  // last: their work must end before the memory is freed
};

}  // namespace

Shortcuts Shortcuts::from_environment() {
  Shortcuts shortcuts;
  const char* const value = std::getenv(kVariable);
  std::string_view names = value == nullptr ? "" : value;
  while (!names.empty()) {
    const std::size_t comma = std::min(names.find(','), names.size());
    if (comma > 0) switch_off(shortcuts, names.substr(0, comma));
    names.remove_prefix(std::min(comma + 1, names.size()));
  }
  return shortcuts;
}

Shortcuts try_shortcuts(Machine& machine, Shortcuts wanted, std::vector<std::string>& refused) {
  if (machine.free_memory() < 2 * sizeof(Scratch)) return wanted;  // start() reports the lack
  const auto attempt = [&](bool& on, const std::string& name, const char* refusal, const auto& run) {
    if (!on) return;
    const Tried::Outcome outcome = machine.tried().once(name, [&]() -> std::string {
      try {
        return run();
      } catch (const Error& error) {
        machine.finish();  // throws if the device is unusable
        return error.message();
      }
    });
    on = outcome.trouble.empty();
    if (!on && outcome.is_new) refused.push_back(fmt::format("{}: {}", refusal, outcome.trouble));
  };
  std::optional<Trial> kernels;  // made for the first trial, and again after an error
  const auto compare = [&](std::string (Trial::*run)()) {
    return [&kernels, &machine, run] {
      if (!kernels) kernels.emplace(machine);
      try {
        return (*kernels.*run)();
      } catch (const Error&) {
        kernels.reset();
        throw;
      }
    };
  };
  attempt(wanted.last_block, "last_block", "'last_block' is not used", compare(&Trial::last_block));
  attempt(wanted.sign_bits, "sign_bits", "'sign_bits' is not used", compare(&Trial::sign_bits));
  attempt(wanted.norm_pool, "norm_pool", "'norm_pool' is not used", compare(&Trial::norm_pool));
  attempt(wanted.recordings, "recordings", "recordings are off, and steps are submitted kernel by kernel",
          [&] { return RecordingTrial(machine).run(); });
  return wanted;
}

}  // namespace millrace::cuda

#include "shortcuts.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "layers/map_spec.h"
#include "millrace/error.h"
#include "parameter_store.h"

namespace millrace::cuda {
namespace {

struct Switch {
  std::string_view name;
  bool Shortcuts::*on;
};
constexpr std::array<Switch, 4> kSwitches = {{{"accumulate", &Shortcuts::accumulate},
                                              {"two_gradients", &Shortcuts::two_gradients},
                                              {"sign_bits", &Shortcuts::sign_bits},
                                              {"last_block", &Shortcuts::last_block}}};
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
using Channels = std::array<float, kChannels>;

// A batch norm with a ReLU behind an addition. All in device memory.
struct Scratch {
  alignas(kAlignment) Bf16 x[kRows * kChannels], residual[kRows * kChannels], dy[kRows * kChannels];
  alignas(kAlignment) Bf16 y[kRows * kChannels], masked[2][kRows * kChannels];
  alignas(kAlignment) std::uint8_t positive[kRows * kPacks];
  alignas(kAlignment) float partial[64 * 2 * kChannels];
  alignas(kAlignment) double groups[2 * 2 * kChannels];
  alignas(kAlignment) std::uint32_t tickets[kTickets];
  alignas(kAlignment) Channels mean, variance, factor;
};
// What comes back to the host.
struct Found {
  Channels mean, variance;
  Bf16 masked[kRows * kChannels];
};

class Trial {
 public:
  explicit Trial(Machine& machine)
      : machine_(machine),
        memory_(machine, sizeof(Scratch), "scratch of a trial"),
        host_(machine, std::max(sizeof(Found), 3 * sizeof(Scratch::x))),
        queue_(machine.make_queue("trial")) {
    fill();
  }

  // Empty, or in what way the results differ.
  std::string last_block() {
    statistics(false);
    const Channels mean = found().mean, variance = found().variance;
    for (int time = 1; time <= 2; ++time) {  // tickets have to be as they were
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
    const std::vector<std::uint16_t> by_map = bits_of(0), by_bits = bits_of(1);
    const auto at = std::mismatch(by_map.begin(), by_map.end(), by_bits.begin()).first - by_map.begin();
    if (at == kRows * kChannels) return {};
    return fmt::format("the gradient of value {} is masked in another way", at);
  }

 private:
  static bool near(float a, float b) { return std::abs(a - b) <= 1e-5F * std::max(1.0F, std::abs(b)); }
  Scratch& device() const { return *memory_.as<Scratch>(); }
  const Found& found() const { return *reinterpret_cast<const Found*>(host_.data()); }

  // Values from -2 to 2 in steps that bf16 holds.
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
  void masked(bool by_bits) {
    Scratch& d = device();
    NormaliseBackwardSums<Bf16> kernel;
    kernel.x = d.x;
    kernel.dy = d.dy;
    if (by_bits)
      kernel.positive = d.positive;
    else
      kernel.y = d.y;
    kernel.masked = d.masked[by_bits ? 1 : 0];
    kernel.mean = d.mean.data();
    kernel.factor = d.factor.data();
    kernel.rows = kRows;
    kernel.packs = kPacks;
    kernel.activation = Activation::relu;
    kernel.partial = d.partial;
    queue_->run(kernel);
  }
  std::vector<std::uint16_t> bits_of(int which) {
    Found& host = *reinterpret_cast<Found*>(host_.data());
    fetch(host.masked, device().masked[which], sizeof host.masked);
    std::vector<std::uint16_t> bits(kRows * kChannels);
    std::memcpy(bits.data(), host.masked, sizeof host.masked);
    return bits;
  }

  Machine& machine_;
  DeviceMemory memory_;
  HostMemory host_;
  std::unique_ptr<Queue> queue_;  // last: its work is done before the memory goes
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
  if (machine.free_memory() < 2 * sizeof(Scratch)) return wanted;  // start() will say what is missing
  const auto attempt = [&](bool& on, std::string_view name, std::string (Trial::*run)()) {
    if (!on) return;
    std::string trouble;
    try {
      trouble = (Trial(machine).*run)();
    } catch (const Error& error) {
      machine.finish();  // throws where the device can do nothing any more
      trouble = error.message();
    }
    if (trouble.empty()) return;
    on = false;
    refused.push_back(fmt::format("'{}' is not used: {}", name, trouble));
  };
  attempt(wanted.last_block, "last_block", &Trial::last_block);
  attempt(wanted.sign_bits, "sign_bits", &Trial::sign_bits);
  return wanted;
}

}  // namespace millrace::cuda

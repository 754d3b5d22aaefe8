#include "shortcuts.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <memory>
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

bool recordings_work(Machine& machine) {
  const std::string key = "recordings work";
  if (machine.choices().find(key)) return true;
  if (machine.free_memory() < 2 * sizeof(Chain)) return true;  // start() reports the lack
  std::string trouble;
  try {
    trouble = RecordingTrial(machine).run();
  } catch (const Error& error) {
    machine.finish();  // throws if the device is unusable
    trouble = error.message();
  }
  if (trouble.empty()) {
    machine.choices().put(key, "");
    return true;
  }
  machine.choices().warn_once(
      fmt::format("{} on device {}", key, machine.info().index),
      fmt::format("{}: recordings are off, and steps are submitted kernel by kernel: {}", machine.info().name, trouble),
      [&](std::string_view message) { machine.warn(message); });
  return false;
}

}  // namespace millrace::cuda

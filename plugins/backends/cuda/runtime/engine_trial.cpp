#include "engine_trial.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

#include "device_meter.h"
#include "layers/map_spec.h"
#include "millrace/error.h"
#include "millrace/sample.h"

namespace millrace::cuda {
namespace {

constexpr std::size_t kBlock = std::size_t{1} << 14;  // bytes from the host, and of one sample
constexpr std::size_t kSamples = 16;
constexpr int kTimedRuns = 5;
constexpr double kSmall = 0.125;      // sums of products of these are about 1
constexpr double kLarge = 2;          // previous values of an accumulated gradient are conspicuous
constexpr float kRounding = 0x1p-5F;  // relative; bf16 rounds by at most 2^-8, twice

std::size_t bytes_of(std::int64_t elements, DataType type) {
  return round_up(static_cast<std::size_t>(round_up(elements, kPack)) * size_of(type), kAlignment);
}

std::int64_t filter_elements(const ConvolutionShape& shape) {
  const bool depthwise = shape.groups == shape.c && shape.groups == shape.k;
  const bool padded = shape.groups == 1 || depthwise;
  const std::int64_t c = shape.groups == 1 ? pitch_of(shape.c) : shape.c / shape.groups;
  return (padded ? pitch_of(shape.k) : shape.k) * shape.kernel_h * shape.kernel_w * c;
}

// Magnitudes between a half and all of `scale`, of either sign: neither zeros nor NaN, which may change the time.
template <class T>
std::vector<std::byte> random_block(double scale) {
  std::vector<std::byte> block(kBlock);
  for (std::size_t i = 0; i < kBlock / sizeof(T); ++i) {
    const std::uint64_t bits = mix64(i + 1);
    const double magnitude = scale * (0.5 + 0.5 * static_cast<double>(bits >> 11) * 0x1p-53);
    const T value = from_float<T>(static_cast<float>((bits & 1U) == 0 ? magnitude : -magnitude));
    std::memcpy(block.data() + i * sizeof(T), &value, sizeof(T));
  }
  return block;
}

template <class T>
void append_floats(std::vector<float>& to, const std::vector<std::byte>& bytes) {
  for (std::size_t i = 0; i < bytes.size() / sizeof(T); ++i) {
    T value;
    std::memcpy(&value, bytes.data() + i * sizeof(T), sizeof(T));
    to.push_back(to_float(value));
  }
}

}  // namespace

TrialOperands TrialOperands::of(const ConvolutionShape& shape) {
  const std::int64_t k = pitch_of(shape.k);
  const DataType of_w = shape.kind == ConvolutionShape::Kind::weight_gradient ? DataType::f32 : shape.type;
  return {.x = {bytes_of(shape.n * shape.h * shape.w * pitch_of(shape.c), shape.type), shape.type},
          .w = {bytes_of(filter_elements(shape), of_w), of_w},
          .y = {bytes_of(shape.n * shape.out_h * shape.out_w * k, shape.type), shape.type},
          .bias = {shape.bias ? bytes_of(k, DataType::f32) : 0, DataType::f32},
          .accumulate = shape.accumulate,
          .check = std::make_shared<const EngineCheck>(shape)};
}

TrialOperands TrialOperands::of(const LinearShape& shape) {
  const bool forward = shape.kind == ConvolutionShape::Kind::forward;
  const DataType of_w = shape.kind == ConvolutionShape::Kind::weight_gradient ? DataType::f32 : shape.type;
  const DataType of_y = forward ? shape.result : shape.type;
  return {.x = {bytes_of(shape.rows * shape.in, shape.type), shape.type},
          .w = {bytes_of(shape.out * shape.in, of_w), of_w},
          .y = {bytes_of(shape.rows * shape.out, of_y), of_y},
          .bias = {shape.bias ? bytes_of(shape.out, DataType::f32) : 0, DataType::f32},
          .check = std::make_shared<const EngineCheck>(shape)};
}

bool is_sum(const std::vector<float>& before, const std::vector<float>& added, const std::vector<float>& after) {
  for (std::size_t i = 0; i < after.size(); ++i) {
    const float off = std::abs(after[i] - (before[i] + added[i]));
    if (!(off <= kRounding * (std::abs(before[i]) + std::abs(added[i])))) return false;  // in this form, NaN is not a valid sum
  }
  return true;
}

EngineTrial::EngineTrial(Machine& machine, Queue& queue, const TrialOperands& operands)
    : machine_(machine), queue_(queue), operands_(operands) {}

// Allocates; false if there is not enough.
bool EngineTrial::prepare(std::size_t workspace) {
  const TrialOperands& o = operands_;
  try {
    if (scratch_.bytes() == 0) {
      constexpr std::size_t kGuards = 5 * EngineCheck::kGuard;
      scratch_ = DeviceMemory(machine_, o.x.bytes + o.w.bytes + o.y.bytes + o.bias.bytes + kGuards, "trial of an engine");
      std::byte* at = scratch_.data() + EngineCheck::kGuard;
      const auto place = [&](const TrialOperand& operand) {
        if (operand.bytes == 0) return static_cast<std::byte*>(nullptr);
        fill(at, operand, kSmall);
        return std::exchange(at, at + operand.bytes + EngineCheck::kGuard);
      };
      work_.x = place(o.x), work_.w = place(o.w), work_.y = place(o.y);
      work_.bias = reinterpret_cast<const float*>(place(o.bias));
    }
    const std::size_t guarded = workspace > 0 ? workspace + 2 * EngineCheck::kGuard : 0;
    if (guarded > workspace_.bytes()) {
      workspace_ = DeviceMemory();
      workspace_ = DeviceMemory(machine_, guarded, "workspace of an engine's trial");
    }
  } catch (const Error&) {
    return false;
  }
  work_.workspace = workspace > 0 ? workspace_.data() + EngineCheck::kGuard : nullptr;
  return true;
}

// One block comes from the host; its copies are doubled until they suffice.
void EngineTrial::fill(std::byte* to, const TrialOperand& operand, double scale) {
  const auto block = operand.type == DataType::f32 ? random_block<float>(scale) : random_block<Bf16>(scale);
  queue_.copy_in(to, block.data(), std::min(block.size(), operand.bytes));
  for (std::size_t done = block.size(); done < operand.bytes; done *= 2) {
    queue_.copy(to + done, to, std::min(done, operand.bytes - done));
  }
  finish();  // the host's block is released next
}

void EngineTrial::finish() { queue_.mark()->wait(); }

// Later calls fail after a sticky error.
bool EngineTrial::device_works() noexcept {
  try {
    queue_.zero(scratch_.data(), kAlignment);
    finish();
    return true;
  } catch (...) {
    return false;
  }
}

std::optional<double> EngineTrial::run(const LibraryPlan& plan, bool timed, std::string& why_not) {
  if (!prepare(plan.workspace())) {
    if (!operands_.accumulate) return std::numeric_limits<double>::infinity();
    why_not = "there is too little memory to test whether it adds to x";
    return std::nullopt;
  }
  work_.plan = &plan;
  try {
    if (operands_.accumulate && !adds(work_)) {
      why_not = fmt::format("{} does not add to x", plan.engine());
      return std::nullopt;
    }
    queue_.run(work_);
    finish();
    if (const Fault fault = find_fault(plan); !fault.empty()) {
      why_not = fmt::format("{} computes wrongly: {}", plan.engine(), fault);
      return std::nullopt;
    }
    return timed ? time(work_) : 0;
  } catch (Error& error) {
    why_not = error.message();
    if (device_works()) return std::nullopt;
    error.in(fmt::format("{} was tried on scratch memory, and the device has failed since", plan.engine()));
    throw;
  }
}

// Stored, but not for a checking machine, whose engines belong to tests.
Fault EngineTrial::find_fault(const LibraryPlan& plan) {
  if (!operands_.check) return {};
  EngineChoices none;
  EngineChoices& verdicts = machine_.checks() ? none : machine_.choices();
  return verdicts.find_or(fmt::format("check of {} by {}", operands_.check->key(), plan.identity()), [&] {
    const Fault fault = operands_.check->find_fault(queue_, work_, plan.workspace());
    refill();
    return fault;
  });
}

// After a check, restores small random numbers for timing and for the next accumulation test.
void EngineTrial::refill() {
  const auto again = [&](const void* to, const TrialOperand& operand) {
    if (operand.bytes > 0) fill(static_cast<std::byte*>(const_cast<void*>(to)), operand, kSmall);  // NOLINT: its own memory
  };
  again(work_.x, operands_.x), again(work_.w, operands_.w), again(work_.y, operands_.y), again(work_.bias, operands_.bias);
}

// Evenly spaced from the first byte of x to its last.
std::vector<float> EngineTrial::sample_x() {
  const TrialOperand& x = operands_.x;
  std::vector<std::vector<std::byte>> samples(x.bytes <= kSamples * kBlock ? (x.bytes + kBlock - 1) / kBlock : kSamples);
  for (std::size_t i = 0; i < samples.size(); ++i) {
    const std::size_t last = x.bytes - std::min(kBlock, x.bytes);
    const std::size_t at = samples.size() == 1 ? 0 : last / kAlignment * i / (samples.size() - 1) * kAlignment;
    samples[i].resize(std::min(kBlock, x.bytes));
    queue_.copy_out(samples[i].data(), static_cast<std::byte*>(work_.x) + at, samples[i].size());
  }
  finish();
  std::vector<float> values;
  for (const auto& sample : samples) {
    x.type == DataType::f32 ? append_floats<float>(values, sample) : append_floats<Bf16>(values, sample);
  }
  return values;
}

// Compares the plan's results over zeros and over numbers that must still be included afterwards.
bool EngineTrial::adds(const LibraryRun& work) {
  queue_.zero(work.x, operands_.x.bytes);
  queue_.run(work);
  const std::vector<float> gradient = sample_x();
  fill(static_cast<std::byte*>(work.x), operands_.x, kLarge);
  const std::vector<float> before = sample_x();
  queue_.run(work);
  return is_sum(before, gradient, sample_x());
}

// Without the memory for it, runs are timed as the cache happens to be.
void EngineTrial::reserve_flush() {
  if (flush_.bytes() == machine_.info().cache) return;
  try {
    flush_ = DeviceMemory(machine_, machine_.info().cache, "what empties the cache before a timed run");
  } catch (const Error&) {
    if (!device_works()) throw;
  }
}

// All runs are submitted at once, so that the device need not wait for the host in between. The cache is emptied outside of what
// is timed.
double EngineTrial::time(const LibraryRun& work) {
  reserve_flush();
  DeviceMeter meter(machine_, kTimedRuns);
  for (int i = 0; i < kTimedRuns; ++i) {
    if (flush_.bytes() > 0) queue_.zero(flush_.data(), flush_.bytes());
    const DeviceMeter::Piece piece(&meter, queue_, "trial", "run");
    queue_.run(work);
  }
  double best = std::numeric_limits<double>::infinity();
  for (const WorkSpan& span : meter.spans()) best = std::min(best, span.end - span.begin);
  return best;
}

}  // namespace millrace::cuda

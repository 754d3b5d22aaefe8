#include "engine_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "layers/map_spec.h"
#include "millrace/kernels/portable_element.h"

namespace millrace::cuda {
namespace {

using Kind = ConvolutionShape::Kind;
using Axes = std::vector<std::vector<std::int64_t>>;

constexpr std::byte kPattern{0xff};  // fills guards and results before a run: NaN in every type
// Engines may use several algorithms: Winograd and Fourier transforms round more than a plain sum.
constexpr double kTermRounding = 0x1p-17;

// An axis of `extent` indices, `stride` elements apart.
std::vector<std::int64_t> axis(std::int64_t extent, std::int64_t stride) {
  std::vector<std::int64_t> offsets(static_cast<std::size_t>(extent));
  for (std::int64_t i = 0; i < extent; ++i) offsets[static_cast<std::size_t>(i)] = i * stride;
  return offsets;
}

// (n, channels, h, w) of a channels-last map.
Axes map_axes(std::int64_t pitch, std::int64_t h, std::int64_t w) {
  return {{0}, axis(pitch, 1), axis(h, w * pitch), axis(w, pitch)};
}

// (group, k, c, i, j) of weights in machine.h's layout.
Axes weight_axes(const ConvolutionShape& s) {
  const bool depthwise = s.groups == s.c && s.groups == s.k && s.groups > 1;
  const std::int64_t groups = depthwise ? pitch_of(s.k) : s.groups;
  const std::int64_t k = s.groups == 1 ? pitch_of(s.k) : depthwise ? 1 : s.k / s.groups;
  const std::int64_t c = s.groups == 1 ? pitch_of(s.c) : depthwise ? 1 : s.c / s.groups;
  const std::int64_t filter = s.kernel_h * s.kernel_w * c;
  return {axis(groups, k * filter), axis(k, filter), axis(c, 1), axis(s.kernel_h, s.kernel_w * c), axis(s.kernel_w, c)};
}

std::int64_t elements_of(const ElementOffsets& elements) {
  std::int64_t last = 0;
  for (const auto& offsets : elements.axes) last += offsets.back();
  return last + 1;
}

WindowOperand result_of(Kind kind) {
  return kind == Kind::forward ? WindowOperand::y : kind == Kind::data_gradient ? WindowOperand::x : WindowOperand::w;
}

DataType type_of_weights(Kind kind, DataType type) { return kind == Kind::weight_gradient ? DataType::f32 : type; }

}  // namespace

EngineCheck::EngineCheck(const ConvolutionShape& s, std::size_t most_held)
    : key_(fmt::format("convolution {} {} {}x{}x{}x{} -> {}x{}x{} windows {}x{} stride {}x{} dilation {}x{} padding {} {} {} {} "
                       "groups {} bias {} activation {} tf32 {} adds {}",
                       static_cast<int>(s.kind), to_string(s.type), s.n, s.c, s.h, s.w, s.k, s.out_h, s.out_w, s.kernel_h,
                       s.kernel_w, s.stride_h, s.stride_w, s.dilation_h, s.dilation_w, s.top, s.left, s.bottom, s.right, s.groups,
                       s.bias, static_cast<int>(s.activation), s.tf32, s.accumulate)),
      shape_{.n = 1, .groups = s.groups, .c = s.c / s.groups, .k = s.k / s.groups},
      result_(result_of(s.kind)),
      relu_(s.activation == Activation::relu),
      known_(s.activation != Activation::gelu),
      narrow_(s.kind == Kind::weight_gradient && s.type == DataType::bf16) {
  shape_.rows = {s.h, s.out_h, s.kernel_h, s.stride_h, s.dilation_h, s.top};
  shape_.columns = {s.w, s.out_w, s.kernel_w, s.stride_w, s.dilation_w, s.left};
  x_.elements = {s.type, map_axes(pitch_of(s.c), s.h, s.w)};
  w_.elements = {type_of_weights(s.kind, s.type), weight_axes(s)};
  y_.elements = {s.type, map_axes(pitch_of(s.k), s.out_h, s.out_w)};
  if (s.bias && s.kind == Kind::forward) bias_ = window_biases(static_cast<std::size_t>(s.k));
  bias_.resize(bias_.empty() ? 0 : static_cast<std::size_t>(pitch_of(s.k)));
  set_samples(s.n, most_held);
}

EngineCheck::EngineCheck(const LinearShape& s, std::size_t most_held)
    : key_(fmt::format("product {} {} -> {} {}x{} -> {} bias {} activation {} tf32 {}", static_cast<int>(s.kind),
                       to_string(s.type), to_string(s.result), s.rows, s.in, s.out, s.bias, static_cast<int>(s.activation),
                       s.tf32)),
      shape_{.n = 1, .c = s.in, .k = s.out},
      result_(result_of(s.kind)),
      relu_(s.activation == Activation::relu),
      known_(s.activation != Activation::gelu) {
  x_.elements = {s.type, map_axes(s.in, 1, 1)};
  w_.elements = {type_of_weights(s.kind, s.type), {{0}, axis(s.out, s.in), axis(s.in, 1), {0}, {0}}};
  y_.elements = {s.kind == Kind::forward ? s.result : s.type, map_axes(s.out, 1, 1)};
  if (s.bias && s.kind == Kind::forward) bias_ = window_biases(static_cast<std::size_t>(s.out));
  set_samples(s.rows, most_held);
}

// If maps are small, each sample has different numbers.
void EngineCheck::set_samples(std::int64_t samples, std::size_t most_held) {
  const auto bytes_of = [](const Operand& operand) {
    return static_cast<std::size_t>(elements_of(operand.elements)) * size_of(operand.elements.type);
  };
  const std::int64_t x = elements_of(x_.elements), y = elements_of(y_.elements);
  const bool all = static_cast<std::size_t>(samples) * std::max(bytes_of(x_), bytes_of(y_)) <= most_held;
  repeated_ = all ? 1 : samples;
  shape_.n = all ? samples : 1;
  x_.elements.axes[0] = axis(shape_.n, x);
  y_.elements.axes[0] = axis(shape_.n, y);
  for (Operand* operand : {&x_, &w_, &y_}) {
    operand->held = bytes_of(*operand);
    operand->bytes = operand->held * static_cast<std::size_t>(operand == &w_ ? 1 : repeated_);
  }
  bias_bytes_ = bias_.size() * sizeof(float);
}

const EngineCheck::Operand& EngineCheck::of(WindowOperand operand) const {
  return operand == WindowOperand::x ? x_ : operand == WindowOperand::w ? w_ : y_;
}

void* EngineCheck::at(const LibraryRun& work, WindowOperand operand) {
  return operand == WindowOperand::x ? work.x : operand == WindowOperand::w ? work.w : work.y;
}

void EngineCheck::write(Queue& queue, const WindowCheck& check, WindowOperand operand, void* to) const {
  const Operand& made = of(operand);
  std::vector<std::byte> host(made.held);
  check.fill(operand, made.elements, host.data(), 0, check.rows(made.elements));
  queue.copy_in(to, host.data(), made.held);
  auto* const data = static_cast<std::byte*>(to);
  for (std::size_t done = made.held; done < made.bytes; done *= 2)
    queue.copy(data + done, data, std::min(done, made.bytes - done));
  queue.mark()->wait();  // the host memory is released next
}

Fault EngineCheck::compare(Queue& queue, const WindowCheck& check, const void* from) const {
  const Operand& result = of(result_);
  std::vector<std::byte> host(result.held);
  const bool of_weights = result_ == WindowOperand::w;
  const WindowRounding rounding{.relu = relu_ && result_ == WindowOperand::y,
                                .bias = bias_.empty() ? nullptr : &bias_,
                                .of_term = kTermRounding,
                                .times = of_weights ? static_cast<double>(repeated_) : 1,
                                .narrow = narrow_};
  for (const std::size_t begin : {std::size_t{0}, result.bytes - result.held}) {
    queue.copy_out(host.data(), static_cast<const std::byte*>(from) + begin, result.held);
    queue.mark()->wait();
    const WindowDifference found = check.compare(result.elements, host.data(), 0, check.rows(result.elements), rounding);
    if (found.wrong > 0) return fmt::format("{} of {} results are wrong: {}", found.wrong, found.of, found.first);
    if (result.bytes == result.held) break;
  }
  return {};
}

// Writes the pattern before and after each part, or checks it.
Fault EngineCheck::guards(Queue& queue, const std::vector<std::pair<void*, std::size_t>>& parts, bool set) {
  std::vector<std::byte> guard(kGuard, kPattern);
  for (const auto& [data, bytes] : parts) {
    for (std::byte* const at : {static_cast<std::byte*>(data) - kGuard, static_cast<std::byte*>(data) + bytes}) {
      set ? queue.copy_in(at, guard.data(), kGuard) : queue.copy_out(guard.data(), at, kGuard);
      queue.mark()->wait();
      if (!std::ranges::all_of(guard, [](std::byte byte) { return byte == kPattern; })) return "it writes outside of its memory";
    }
  }
  return {};
}

// A ReLU that turns NaN into 0, like fmaxf(), would hide non-finite numbers. With NaN weights every result is NaN.
Fault EngineCheck::find_hidden_nan(Queue& queue, const LibraryRun& work) const {
  std::vector<std::byte> weights(w_.bytes, kPattern), first(size_of(y_.elements.type));
  queue.copy_in(work.w, weights.data(), weights.size());
  queue.run(work);
  queue.copy_out(first.data(), work.y, first.size());
  queue.mark()->wait();
  const void* const value = first.data();
  const float found =
      y_.elements.type == DataType::bf16 ? to_float(*static_cast<const Bf16*>(value)) : *static_cast<const float*>(value);
  return std::isnan(found) ? Fault() : fmt::format("its ReLU makes {:g} of NaN", found);
}

Fault EngineCheck::find_fault(Queue& queue, const LibraryRun& work, std::size_t workspace) const {
  std::vector<std::pair<void*, std::size_t>> parts = {{work.x, x_.bytes}, {work.w, w_.bytes}, {work.y, y_.bytes}};
  if (workspace > 0) parts.emplace_back(work.workspace, workspace);
  const WindowCheck check(shape_, result_);
  for (const WindowOperand operand : {WindowOperand::x, WindowOperand::w, WindowOperand::y}) {
    if (operand == result_)
      queue.zero(at(work, operand), of(operand).bytes);  // a data gradient may be added to existing values
    else
      write(queue, check, operand, at(work, operand));
  }
  if (!bias_.empty()) {
    queue.copy_in(const_cast<float*>(work.bias), bias_.data(), bias_bytes_);  // NOLINT: the trial's own memory
    queue.mark()->wait();
  }
  guards(queue, parts, true);
  queue.run(work);
  if (Fault fault = guards(queue, parts, false); !fault.empty()) return fault;
  Fault fault = known_ ? compare(queue, check, at(work, result_)) : Fault();
  return fault.empty() && relu_ && result_ == WindowOperand::y ? find_hidden_nan(queue, work) : fault;
}

}  // namespace millrace::cuda

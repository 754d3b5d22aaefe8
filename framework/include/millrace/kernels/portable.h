// Portable layers, written once for all devices: kernels of values, and the order of their calls.
//
//   struct Slope {  // y = x for x > 0, else slope * x
//     float slope;
//     MILLRACE_KERNEL float operator()(float x) const { return x > 0 ? x : slope * x; }
//   };
//   MILLRACE_KERNELS(Slope)                                                   // in the header that KERNELS names to CMake
//
//   void forward(Pass& pass) const override { pass.each(Slope{slope_}, pass.in(), pass.out()); }
//
// Four forms of kernel:
//   each   float operator()(float, ...) const: one value from the values of the same element in the tensors read.
//   row    static constexpr int kReads, kWrites; template <class Row> void operator()(Row& row) const: the channels of one
//          place. row.in(i, c), row.out(i, c, value), row.channels(); row.each(f) calls f(c) for every channel, in any order;
//          row.sum(f) and row.largest(f) join f(c) over the channels, a sum in the type that f returns; row.place_in(i) and
//          row.place_out(i, value) for tensors with one number per place. A channel is written once, after all reads of it.
//   sum    static constexpr bool kSum = true; float operator()(float, ...) const: a term. The result has fewer places than the
//          tensors read: terms are added over all places that share a result, in an order that depends on extents alone.
//   gather static constexpr bool kGather = true; static constexpr int kReads; template <class From>
//          auto operator()(const From& from, std::int32_t y, std::int32_t x) const: row y and column x of the result, as a
//          function of the channel. from(i, y, x) is the same function for the i-th tensor read, in the same image;
//          from(i, c, y, x) is one value, for places that depend on the channel. from.channels(i), height(i) and width(i) are the
//          extents, which the kernel must respect. A vector is a map of 1 x 1. So `return from(0, y + 1, x);` shifts. Take
//          `auto c` if it is passed on unchanged, and divide it by a Divider (divider.h): then channels are computed
//          together. A gather takes a layer's inputs, outputs and their gradients, of any shapes.
// In the other forms, a tensor read may have fewer places than the result: a vector (C) read with a map (C, H, W) applies to
// every pixel, a parameter (C) also to every sample.
#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "millrace/kernels/bf16_each.h"
#include "millrace/kernels/kernel_math.h"
#include "millrace/kernels/portable_element.h"
#include "millrace/kernels/portable_gather.h"
#include "millrace/kernels/vectorised.h"

namespace millrace {

// A tensor of a layer or a loss, by name. Pass and LossPass make them.
struct PassTensor {
  // clang-format off
  enum class Kind {
    input, output, d_input, d_output,
    parameter, d_parameter, places,                                                      // for layers
    weight, label, second_label, share, target, constant, figure, predicted, map, total  // for losses
  };
  // clang-format on
  Kind kind = Kind::input;
  int index = 0;
  friend bool operator==(const PassTensor&, const PassTensor&) = default;
};

struct PassCall {
  const PortableKernel* kernel = nullptr;
  std::array<std::byte, PortableElement::kMaxBytes> functor{};
  std::vector<PassTensor> reads, writes;

  bool reads_tensor(PassTensor tensor) const;
};

template <class F>
const PortableKernel& portable_kernel();

// A list of calls, each over some tensors.
class PassCalls {
 public:
  // The last tensor is the result.
  template <class F, std::same_as<PassTensor>... T>
  void each(const F& kernel, T... tensors) {
    call(portable_kernel<F>(), &kernel, sizeof(F), {tensors...}, 1);
  }
  template <class F, std::same_as<PassTensor>... T>
  void each(T... tensors) {
    each(F{}, tensors...);
  }
  template <class F>
  void row(const F& kernel, std::vector<PassTensor> reads, const std::vector<PassTensor>& writes) {
    reads.insert(reads.end(), writes.begin(), writes.end());
    call(portable_kernel<F>(), &kernel, sizeof(F), std::move(reads), writes.size());
  }
  template <class F, std::same_as<PassTensor>... T>
  void sum(const F& kernel, T... tensors) {
    call(portable_kernel<F>(), &kernel, sizeof(F), {tensors...}, 1);
  }
  template <class F>
  void gather(const F& kernel, std::vector<PassTensor> reads, PassTensor written) {
    reads.push_back(written);
    call(portable_kernel<F>(), &kernel, sizeof(F), std::move(reads), 1);
  }

  const std::vector<PassCall>& calls() const { return calls_; }
  int count(PassTensor::Kind kind) const;  // 1 + the largest index of this kind; 0 if none is used

 protected:
  PassCalls() = default;

 private:
  void call(const PortableKernel& kernel, const void* functor, std::size_t bytes, std::vector<PassTensor> tensors,
            std::size_t writes);
  std::vector<PassCall> calls_;
};

// ---- From a functor to a PortableKernel ----

namespace detail {

template <class F>
concept RowFunctor = requires {
  F::kWrites;
};
template <class F>
concept SumFunctor = requires {
  F::kSum;
};
template <class F>
concept GatherFunctor = requires {
  F::kGather;
};

template <class F, class... Floats>
constexpr int arity_of(float (F::*)(Floats...) const) {
  static_assert((std::same_as<Floats, float> && ...), "a kernel takes and returns float");
  return static_cast<int>(sizeof...(Floats));
}

template <class F, class Result, class... Given>
constexpr int arity_of(Result (F::*)(Given...)) {
  static_assert(sizeof(F) == 0, "a kernel's operator() is const: write `float operator()(float x) const`");
  return 0;
}

// A row on the host. Lanes of sums are added in a fixed order.
class HostRow {
 public:
  explicit HostRow(RowArrays& row) : row_(row) {}
  MILLRACE_KERNEL std::int64_t channels() const { return row_.channels; }
  MILLRACE_KERNEL double divisor() const { return row_.divisor; }
  MILLRACE_KERNEL float in(int tensor, std::int64_t c) const { return row_.in[static_cast<std::size_t>(tensor)][c]; }
  MILLRACE_KERNEL void out(int tensor, std::int64_t c, float value) const {
    row_.out[static_cast<std::size_t>(tensor)][c] = value;
  }
  MILLRACE_KERNEL float place_in(int tensor) const { return row_.place_in[static_cast<std::size_t>(tensor)]; }
  MILLRACE_KERNEL void place_out(int tensor, float value) const { row_.place_out[static_cast<std::size_t>(tensor)] = value; }

  template <class Use>
  MILLRACE_KERNEL void each(const Use& use) const {
#pragma GCC ivdep
    for (std::int64_t c = 0; c < row_.channels; ++c) use(c);
  }
  template <class Term>
  MILLRACE_KERNEL auto sum(const Term& term) const {
    using T = decltype(term(std::int64_t{}));
    return joined(T{}, term, [](T a, T b) MILLRACE_INLINED { return a + b; });
  }
  template <class Term>
  MILLRACE_KERNEL float largest(const Term& term) const {
    return joined(-__builtin_inff(), term, [](float a, float b) MILLRACE_INLINED { return a > b ? a : b; });
  }

 private:
  static constexpr int kLanes = 16;
  template <class T, class Term, class Join>
  MILLRACE_KERNEL T joined(T nothing, const Term& term, const Join& join) const {
    T lanes[kLanes];
    for (T& lane : lanes) lane = nothing;
    std::int64_t c = 0;
    for (; c + kLanes <= row_.channels; c += kLanes) {
      for (int k = 0; k < kLanes; ++k) lanes[k] = join(lanes[k], term(c + k));
    }
    for (int k = 0; c + k < row_.channels; ++k) lanes[k] = join(lanes[k], term(c + k));
    for (int half = kLanes / 2; half > 0; half /= 2) {
      for (int k = 0; k < half; ++k) lanes[k] = join(lanes[k], lanes[k + half]);
    }
    return lanes[0];
  }

  RowArrays& row_;
};

template <class F>
void row_on_host(const void* functor, RowArrays& row) {
  static_assert(std::is_invocable_v<const F&, HostRow&>,
                "a kernel's operator() is const: write `void operator()(Row& row) const`");
  vectorised([&]() MILLRACE_INLINED {
    const F f = *static_cast<const F*>(functor);
    HostRow host(row);
    f(host);
  });
}

template <class F, class T, std::size_t... I>
void each_on_host(const void* functor, const T* const* in, T* out, std::int64_t count,
                  [[maybe_unused]] std::index_sequence<I...> indices) {
#if defined(MILLRACE_AVX512_BF16)
  if constexpr (std::same_as<T, Bf16>) {
    if (instruction_set() == InstructionSet::avx512_bf16) {
      return each_rounded(*static_cast<const F*>(functor), in, out, count, indices);
    }
  }
#endif
  const T* const from[] = {in[I]..., nullptr};
  vectorised([&]() MILLRACE_INLINED {
    const F f = *static_cast<const F*>(functor);
#pragma GCC ivdep
    for (std::int64_t i = 0; i < count; ++i) out[i] = from_float<T>(f(to_float(from[I][i])...));
  });
}

template <class F, std::size_t... I>
void sum_on_host(const void* functor, const float* const* in, std::int64_t rows, std::int64_t channels, float* totals,
                 std::index_sequence<I...>) {
  const float* const from[] = {in[I]..., nullptr};
  vectorised([&]() MILLRACE_INLINED {
    const F f = *static_cast<const F*>(functor);
    for (std::int64_t r = 0; r < rows; ++r) {
#pragma GCC ivdep
      for (std::int64_t c = 0; c < channels; ++c) totals[c] += f(from[I][r * channels + c]...);
    }
  });
}

template <class F>
struct FirstRound {};
template <class F>
struct SecondRound {};

// The functor's name as spelled by the compiler.
template <class F>
constexpr auto type_name() {
  constexpr std::string_view all = __PRETTY_FUNCTION__;
  constexpr std::size_t begin = all.find("F = ") + 4, end = all.find_first_of(";]", begin);
  std::array<char, end - begin + 1> name{};
  for (std::size_t i = begin; i < end; ++i) name[i - begin] = all[i];
  return name;
}
template <class F>
inline constexpr auto kTypeName = type_name<F>();

template <class F>
constexpr PortableKernel make_portable_kernel() {
  static_assert(std::is_trivially_copyable_v<F> && sizeof(F) <= PortableElement::kMaxBytes, "a kernel is small plain data");
  PortableKernel kernel{PortableForm::each,
                        0,
                        1,
                        nullptr,
                        nullptr,
                        nullptr,
                        nullptr,
                        nullptr,
                        {kTypeName<F>.data(), sizeof(PortableElement), portable::uses, portable::units, portable::run_on_host,
                         device_launcher<FirstRound<F>>},
                        {kTypeName<F>.data(), sizeof(PortableElement), portable::finish_uses, portable::finish_units,
                         portable::finish_on_host, device_launcher<SecondRound<F>>}};
  if constexpr (RowFunctor<F>) {
    kernel.form = PortableForm::row;
    kernel.reads = F::kReads;
    kernel.writes = F::kWrites;
    kernel.row = row_on_host<F>;
  } else if constexpr (GatherFunctor<F>) {
    kernel.form = PortableForm::gather;
    kernel.reads = F::kReads;
    kernel.gather = gather_on_host<F>;
  } else {
    constexpr int kReads = arity_of(&F::operator());
    using Indices = std::make_index_sequence<static_cast<std::size_t>(kReads)>;
    kernel.reads = kReads;
    if constexpr (SumFunctor<F>) {
      kernel.form = PortableForm::sum;
      kernel.sum = [](const void* functor, const float* const* in, std::int64_t rows, std::int64_t channels, float* totals) {
        sum_on_host<F>(functor, in, rows, channels, totals, Indices());
      };
    } else {
      kernel.each = [](const void* functor, const float* const* in, float* out, std::int64_t count) {
        each_on_host<F>(functor, in, out, count, Indices());
      };
      kernel.each_bf16 = [](const void* functor, const Bf16* const* in, Bf16* out, std::int64_t count) {
        each_on_host<F>(functor, in, out, count, Indices());
      };
    }
  }
  return kernel;
}

}  // namespace detail

template <class F>
const PortableKernel& portable_kernel() {
  static constexpr PortableKernel kernel = detail::make_portable_kernel<F>();
  return kernel;
}

}  // namespace millrace

// Portable kernels on a GPU: one kernel for each form. Included by device_code.cuh.
#pragma once

#include <cuda_runtime.h>

#include "millrace/kernels/device_grid.h"
#include "millrace/kernels/portable_element.h"

namespace millrace {
namespace portable {

inline constexpr int kPack = 8;  // channels that a thread computes together

MILLRACE_KERNEL float value_at(const TensorView& view, std::int64_t at) {
  return view.type == DataType::bf16 ? to_float(static_cast<const Bf16*>(view.data)[at])
                                     : static_cast<const float*>(view.data)[at];
}
MILLRACE_KERNEL void put_at(const TensorView& view, std::int64_t at, float value) {
  const float sum = view.add ? value_at(view, at) + value : value;
  if (view.type == DataType::bf16)
    static_cast<Bf16*>(view.data)[at] = from_float<Bf16>(sum);
  else
    static_cast<float*>(view.data)[at] = sum;
}
MILLRACE_KERNEL std::int64_t channel_offset(const TensorView& view, std::int64_t c) {
  return c / 16 * view.stride_block + c % 16;
}

// A place: sample and pixel. In 32 bits if they fit, as they nearly always do.
struct Place {
  std::int64_t n, pixel;
  __device__ std::int64_t in(const TensorView& view) const { return n * view.stride_n + pixel * view.stride_pixel; }
};
__device__ inline Place place_of(std::int64_t i, std::int64_t pixels) {
  if ((i | pixels) >> 32) return {i / pixels, i % pixels};
  const auto whole = static_cast<std::uint32_t>(i), by = static_cast<std::uint32_t>(pixels);
  return {whole / by, whole % by};
}

// Whether eight channels of a place form one or two aligned words.
MILLRACE_KERNEL bool has_packs(const TensorView& view) { return view.padded % kPack == 0 && view.stride_pixel % kPack == 0; }

template <class T>
struct alignas(16) PackOf {
  T values[kPack];
};

// Loads channels [c, c + 8) of a place. Values after the last channel are undefined.
__device__ inline void load_pack(const TensorView& view, const Place& place, std::int64_t c, std::int64_t channels,
                                 float (&values)[kPack]) {
  const std::int64_t at = place.in(view);
  if (!view.by_channel) {
    const float value = value_at(view, at);
    MILLRACE_UNROLL for (float& each : values) each = value;
  } else if (!has_packs(view)) {
    MILLRACE_UNROLL for (int k = 0; k < kPack; ++k) values[k] =
        c + k < channels ? value_at(view, at + channel_offset(view, c + k)) : 0.0F;
  } else if (view.type == DataType::bf16) {
    const auto pack = *reinterpret_cast<const PackOf<Bf16>*>(static_cast<const Bf16*>(view.data) + at + channel_offset(view, c));
    MILLRACE_UNROLL for (int k = 0; k < kPack; ++k) values[k] = to_float(pack.values[k]);
  } else {
    const auto pack =
        *reinterpret_cast<const PackOf<float>*>(static_cast<const float*>(view.data) + at + channel_offset(view, c));
    MILLRACE_UNROLL for (int k = 0; k < kPack; ++k) values[k] = pack.values[k];
  }
}

__device__ inline void store_pack(const TensorView& view, const Place& place, std::int64_t c, std::int64_t channels,
                                  float (&values)[kPack]) {
  const std::int64_t at = place.in(view) + channel_offset(view, c);
  if (!has_packs(view)) {
    MILLRACE_UNROLL for (int k = 0; k < kPack; ++k) {
      if (c + k < channels) put_at(view, at + k, values[k]);
    }
    return;
  }
  if (view.add) {
    float before[kPack];
    load_pack(view, place, c, channels, before);
    MILLRACE_UNROLL for (int k = 0; k < kPack; ++k) values[k] += before[k];
  }
  MILLRACE_UNROLL for (int k = 0; k < kPack; ++k) values[k] = c + k < channels ? values[k] : 0.0F;
  if (view.type == DataType::bf16) {
    PackOf<Bf16> pack;
    MILLRACE_UNROLL for (int k = 0; k < kPack; ++k) pack.values[k] = from_float<Bf16>(values[k]);
    *reinterpret_cast<PackOf<Bf16>*>(static_cast<Bf16*>(view.data) + at) = pack;
  } else {
    PackOf<float> pack;
    MILLRACE_UNROLL for (int k = 0; k < kPack; ++k) pack.values[k] = values[k];
    *reinterpret_cast<PackOf<float>*>(static_cast<float*>(view.data) + at) = pack;
  }
}

template <class F>
__device__ const F& functor_of(const PortableElement& element) {
  return *reinterpret_cast<const F*>(element.functor.data());
}

template <class F, std::size_t... I>
__device__ float value_of(const F& f, const float (&in)[sizeof...(I)][kPack], int k, std::index_sequence<I...>) {
  return f(in[I][k]...);
}

template <class F, class... Floats>
constexpr std::size_t arity_of(float (F::*)(Floats...) const) {
  return sizeof...(Floats);
}

// The work of each thread, warp or group: the element protocol of kernel.h over a PortableElement.
template <class F>
struct EachOnDevice {
  static constexpr Form kForm = Form::each;
  PortableElement element;

  MILLRACE_KERNEL std::int64_t packs() const { return (element.channels + kPack - 1) / kPack; }
  std::int64_t size() const { return element.n * element.pixels * packs(); }
  __device__ void operator()(std::int64_t i) const {
    constexpr std::size_t kReads = arity_of(&F::operator());
    const Place pack = place_of(i, packs());
    const Place place = place_of(pack.n, element.pixels);
    const std::int64_t c = pack.pixel * kPack;
    float in[kReads][kPack], out[kPack];
    MILLRACE_UNROLL for (std::size_t t = 0; t < kReads; ++t) load_pack(element.tensors[t], place, c, element.channels, in[t]);
    MILLRACE_UNROLL for (int k = 0; k < kPack; ++k) out[k] =
        value_of(functor_of<F>(element), in, k, std::make_index_sequence<kReads>());
    store_pack(element.tensors[kReads], place, c, element.channels, out);
  }
};

template <class Group>
class RowOnDevice {
 public:
  __device__ RowOnDevice(const PortableElement& element, const Group& group, const Place& place)
      : element_(element), group_(group), place_(place) {}
  __device__ std::int64_t channels() const { return element_.channels; }
  __device__ double divisor() const { return element_.divisor; }
  __device__ float in(int tensor, std::int64_t c) const {
    const TensorView& view = element_.tensors[tensor];
    return value_at(view, place_.in(view) + channel_offset(view, c));
  }
  __device__ void out(int tensor, std::int64_t c, float value) const {
    const TensorView& view = element_.tensors[element_.reads + tensor];
    if (view.data != nullptr) put_at(view, place_.in(view) + channel_offset(view, c), value);
  }
  __device__ float place_in(int tensor) const {
    const TensorView& view = element_.tensors[tensor];
    return value_at(view, place_.in(view));
  }
  __device__ void place_out(int tensor, float value) const {
    const TensorView& view = element_.tensors[element_.reads + tensor];
    if (group_.lane() == 0 && view.data != nullptr) put_at(view, place_.in(view), value);
  }
  template <class Use>
  __device__ void each(const Use& use) const {
    for (std::int64_t c = group_.lane(); c < element_.channels; c += group_.size()) use(c);
  }
  template <class Term>
  __device__ auto sum(const Term& term) const {
    decltype(term(std::int64_t{})) total{};
    for (std::int64_t c = group_.lane(); c < element_.channels; c += group_.size()) total += term(c);
    return group_.sum(total);
  }
  template <class Term>
  __device__ float largest(const Term& term) const {
    float most = -INFINITY;
    for (std::int64_t c = group_.lane(); c < element_.channels; c += group_.size()) most = fmaxf(most, term(c));
    return group_.largest(most);
  }
  __device__ void pad() const {  // zeros after the last channel
    for (int t = 0; t < element_.writes; ++t) {
      TensorView view = element_.tensors[element_.reads + t];
      view.add = false;
      if (!view.by_channel || view.data == nullptr) continue;
      for (std::int64_t c = element_.channels + group_.lane(); c < view.padded; c += group_.size()) {
        put_at(view, place_.in(view) + channel_offset(view, c), 0.0F);
      }
    }
  }

 private:
  const PortableElement& element_;
  const Group& group_;
  const Place place_;
};

template <class F>
struct RowsOnDevice {
  static constexpr Form kForm = Form::groups;
  static constexpr int kThreads = 32;
  PortableElement element;

  std::int64_t size() const { return element.n * element.pixels; }
  template <class Group>
  __device__ void operator()(const Group& group, std::int64_t i) const {
    RowOnDevice<Group> row(element, group, place_of(i, element.pixels));
    functor_of<F>(element)(row);
    row.pad();
  }
};

// One chunk of one group, eight channels: a warp whose lanes take every 32nd place.
template <class F>
struct SumsOnDevice {
  static constexpr Form kForm = Form::groups;
  static constexpr int kThreads = 32;
  PortableElement element;

  MILLRACE_KERNEL std::int64_t packs() const { return (element.channels + kPack - 1) / kPack; }
  std::int64_t size() const { return element.groups() * element.chunks() * packs(); }
  template <class Group>
  __device__ void operator()(const Group& group, std::int64_t i) const {
    constexpr std::size_t kReads = arity_of(&F::operator());
    const Place pack = place_of(i, packs());
    const Place chunk = place_of(pack.n, element.chunks());
    const std::int64_t c = pack.pixel * kPack;
    const std::int64_t begin = chunk.n * element.rows() + chunk.pixel * element.chunk_rows();
    const std::int64_t end = min(begin + element.chunk_rows(), (chunk.n + 1) * element.rows());
    float totals[kPack] = {};
    for (std::int64_t line = begin + group.lane(); line < end; line += group.size()) {
      float in[kReads][kPack];
      const Place place = place_of(line, element.pixels);
      MILLRACE_UNROLL for (std::size_t t = 0; t < kReads; ++t) load_pack(element.tensors[t], place, c, element.channels, in[t]);
      MILLRACE_UNROLL for (int k = 0; k < kPack; ++k) totals[k] +=
          value_of(functor_of<F>(element), in, k, std::make_index_sequence<kReads>());
    }
    MILLRACE_UNROLL for (int k = 0; k < kPack; ++k) {
      const float total = group.sum(totals[k]);
      if (group.lane() == 0 && c + k < element.channels) element.partial[pack.n * element.channels + c + k] = total;
    }
  }
};

// One thread per channel of a group: adds its chunks in order, in double.
struct FinishOnDevice {
  static constexpr Form kForm = Form::each;
  PortableElement element;

  std::int64_t size() const { return element.groups() * element.tensors[static_cast<std::size_t>(element.reads)].padded; }
  __device__ void operator()(std::int64_t i) const {
    TensorView view = element.tensors[element.reads];
    const Place place = place_of(i, view.padded);
    const std::int64_t c = place.pixel, at = place.n * view.stride_n + channel_offset(view, c);
    double total = 0;
    const float* const chunks = element.partial + place.n * element.chunks() * element.channels + c;
    for (std::int64_t chunk = 0; c < element.channels && chunk < element.chunks(); ++chunk) {
      total += static_cast<double>(chunks[chunk * element.channels]);
    }
    view.add = view.add && c < element.channels;
    put_at(view, at, static_cast<float>(total));
  }
};

// The channels of one place in a tensor read by a gather.
class PlaceOnDevice {
 public:
  __device__ PlaceOnDevice(const TensorView& view, std::int64_t at) : view_(view), at_(at) {}
  __device__ float operator()(std::int32_t c) const {
    return value_at(view_, at_ + c / 16 * static_cast<std::int32_t>(view_.stride_block) + c % 16);
  }

 private:
  const TensorView& view_;
  const std::int64_t at_;
};

// The tensors read by a gather, for one image. Within an image, offsets fit in 32 bits.
class FromOnDevice {
 public:
  __device__ FromOnDevice(const PortableElement& element, std::int64_t n) : element_(element), n_(n) {}
  __device__ std::int32_t channels(int tensor) const { return element_.tensors[tensor].channels; }
  __device__ std::int32_t height(int tensor) const { return element_.tensors[tensor].height; }
  __device__ std::int32_t width(int tensor) const { return element_.tensors[tensor].width; }
  __device__ PlaceOnDevice operator()(int tensor, std::int32_t y, std::int32_t x) const {
    const TensorView& view = element_.tensors[tensor];
    return {view, n_ * view.stride_n + (y * view.width + x) * static_cast<std::int32_t>(view.stride_pixel)};
  }
  __device__ float operator()(int tensor, std::int32_t c, std::int32_t y, std::int32_t x) const {
    return (*this)(tensor, y, x)(c);
  }

 private:
  const PortableElement& element_;
  const std::int64_t n_;
};

// One thread per eight channels of a place of the result.
template <class F>
struct GathersOnDevice {
  static constexpr Form kForm = Form::each;
  PortableElement element;

  MILLRACE_KERNEL std::int64_t packs() const { return (element.channels + kPack - 1) / kPack; }
  std::int64_t size() const { return element.n * element.pixels * packs(); }
  __device__ void operator()(std::int64_t i) const {
    const TensorView& written = element.tensors[F::kReads];
    const Place pack = place_of(i, packs());
    const Place place = place_of(pack.n, element.pixels);
    const std::int32_t c = static_cast<std::int32_t>(pack.pixel) * kPack, pixel = static_cast<std::int32_t>(place.pixel);
    const std::int32_t y = pixel / written.width, x = pixel - y * written.width;
    const FromOnDevice from(element, place.n);
    const auto value = functor_of<F>(element)(from, y, x);
    float out[kPack];
    MILLRACE_UNROLL for (int k = 0; k < kPack; ++k) out[k] = c + k < written.channels ? value(c + k) : 0.0F;
    store_pack(written, place, c, element.channels, out);
  }
};

template <class OnDevice>
int launch(const void* element, void* stream, int multiprocessors) {
  const OnDevice work{*static_cast<const PortableElement*>(element)};
  return static_cast<int>(launch_on_device(work, static_cast<cudaStream_t>(stream), multiprocessors));
}

}  // namespace portable

namespace detail {
template <class F>
struct FirstRound;
template <class F>
struct SecondRound;
}  // namespace detail

template <class F>
concept RowKernel = requires {
  F::kWrites;
};
template <class F>
concept SumKernel = requires {
  F::kSum;
};
template <class F>
concept GatherKernel = requires {
  F::kGather;
};

// Compiles these kernels for the device; see MILLRACE_KERNELS.
template <class... F>
struct PortableDeviceCode {
  PortableDeviceCode() { (add<F>(), ...); }

 private:
  template <class One>
  static void add() {
    if constexpr (RowKernel<One>) {
      device_launcher<detail::FirstRound<One>> = portable::launch<portable::RowsOnDevice<One>>;
    } else if constexpr (GatherKernel<One>) {
      device_launcher<detail::FirstRound<One>> = portable::launch<portable::GathersOnDevice<One>>;
    } else if constexpr (SumKernel<One>) {
      device_launcher<detail::FirstRound<One>> = portable::launch<portable::SumsOnDevice<One>>;
      device_launcher<detail::SecondRound<One>> = portable::launch<portable::FinishOnDevice>;
    } else {
      device_launcher<detail::FirstRound<One>> = portable::launch<portable::EachOnDevice<One>>;
    }
  }
};

}  // namespace millrace

// Portable kernels on the host. Values are staged in plain arrays of a few kilobytes, which stay in the L1 cache and are all that
// the functor's loops access. Arrays that already have this layout are used in place.
#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <vector>

#include "compute/staging.h"
#include "millrace/kernels/portable_element.h"

namespace millrace::portable {
namespace {

constexpr std::int64_t kStaged = 1024;    // floats of one tensor staged at once
constexpr std::int64_t kUnitPlaces = 16;  // for rows: places per unit

const PortableElement& element_of(const void* element) { return *static_cast<const PortableElement*>(element); }

std::size_t count_of(const PortableElement& e) { return static_cast<std::size_t>(e.reads + e.writes); }

std::int64_t divided_up(std::int64_t value, std::int64_t by) { return (value + by - 1) / by; }

// The traversal of an `each`: strips of lines, a line being `channels` contiguous values of every tensor.
struct Walk {
  std::int64_t strips = 1, lines = 1;          // lines per strip
  std::int64_t channels = 1;                   // per line
  std::int64_t blocks = 1;                     // 1: all channels; otherwise a strip is one block of 16 channels of a sample
  bool flat = false;                           // one line over all memory, including padding
  std::int64_t lines_together = 1, parts = 1;  // lines per unit; parts into which channels are divided

  std::int64_t line_groups() const { return divided_up(lines, lines_together); }
  std::int64_t units() const { return strips * line_groups() * parts; }
};

// The length of the call as a single line, with padding, if all tensors have the same layout without gaps except padding; else 0.
std::int64_t flat_length(const PortableElement& e) {
  const TensorView& first = e.tensors[0];
  const bool last = first.stride_block == 16 && first.stride_pixel == first.padded;
  const bool blocked = first.stride_pixel == 16 && first.stride_block == 16 * e.pixels && first.padded % 16 == 0;
  if (!(last || blocked) || first.stride_n != e.pixels * first.padded) return 0;
  for (std::size_t t = 0; t < count_of(e); ++t) {
    const TensorView& view = e.tensors[t];
    if (!view.by_channel || view.padded != first.padded || view.stride_n != first.stride_n ||
        view.stride_pixel != first.stride_pixel || (first.padded > 16 && view.stride_block != first.stride_block)) {
      return 0;
    }
  }
  return e.n * e.pixels * first.padded;
}

bool in_lines(const PortableElement& e) {  // each place's channels are contiguous in every tensor
  if (e.channels <= 16) return true;
  const auto end = e.tensors.begin() + static_cast<std::ptrdiff_t>(count_of(e));
  return std::all_of(e.tensors.begin(), end, [](const TensorView& view) { return !view.by_channel || view.stride_block == 16; });
}

// Sets the element's extents for traversal, and returns the traversal.
Walk walk_of(PortableElement& e) {
  Walk walk;
  if (const std::int64_t length = flat_length(e); length > 0) {
    walk.flat = true;
    e.channels = length;
    e.n = e.pixels = 1;
    for (TensorView& view : e.tensors) {
      view.padded = e.channels;
      view.stride_block = 16;
    }
  } else if (e.pixels == 1) {  // vectors: samples are the lines
    e.pixels = e.n;
    e.n = 1;
    for (TensorView& view : e.tensors) view.stride_pixel = view.stride_n;
  }
  const bool lines = in_lines(e);
  walk.blocks = lines ? 1 : divided_up(e.channels, 16);
  walk.strips = e.n * walk.blocks;
  walk.lines = e.pixels;
  walk.channels = lines ? e.channels : 16;
  walk.parts = divided_up(walk.channels, kStaged);
  walk.lines_together = std::max<std::int64_t>(1, kStaged / walk.channels);
  return walk;
}

// A unit's part of every tensor.
Patch patch_of(const PortableElement& e, const Walk& walk, std::int64_t unit) {
  const std::int64_t part = unit % walk.parts, group = unit / walk.parts % walk.line_groups();
  const std::int64_t strip = unit / walk.parts / walk.line_groups();
  const std::int64_t sample = strip / walk.blocks, block = strip % walk.blocks;
  Patch patch{.first_line = sample * e.pixels + group * walk.lines_together,
              .lines = std::min(walk.lines_together, walk.lines - group * walk.lines_together),
              .first_channel = block * 16 + part * kStaged};
  const std::int64_t end = walk.blocks > 1 ? std::min(e.channels, (block + 1) * 16) : e.channels;
  patch.channels = std::min(kStaged, end - patch.first_channel);
  patch.is_end = patch.first_channel + patch.channels == e.channels;
  return patch;
}

// Whether the functor maps the zeros in padding to zeros, so that its results there are right.
bool keeps_zeros(const PortableElement& e) {
  const float zero = 0;
  std::array<const float*, PortableElement::kMaxTensors> in;
  in.fill(&zero);
  float out = 1;
  e.kernel->each(e.functor.data(), in.data(), &out, 1);
  return std::bit_cast<std::uint32_t>(out) == 0;
}

// Whether zeros must be written after the last channel.
bool wants_zeros(const PortableElement& e) { return e.written(0).padded != e.channels && !keeps_zeros(e); }

// Zeros the padding among `count` values, from element `begin` of a flat tensor on.
template <class T>
void zero_padding(const PortableElement& e, std::int64_t begin, T* values, std::int64_t count) {
  const TensorView& view = e.written(0);
  const bool blocked = view.padded > 16 && view.stride_block != 16;
  const std::int64_t step = blocked ? 16 : view.padded, used = blocked ? e.channels % 16 : e.channels;
  const auto zero = [&](std::int64_t first_place, std::int64_t end) {  // for places that begin in [first_place, end)
    for (std::int64_t place = first_place; place < end; place += step) {
      const std::int64_t first = std::max(place + used, begin), last = std::min(place + step, begin + count);
      for (std::int64_t i = first; i < last; ++i) values[i - begin] = T{};
    }
  };
  if (!blocked) return zero(begin / step * step, begin + count);
  const std::int64_t plane = view.stride_block, blocks = view.padded / 16;
  for (std::int64_t number = begin / plane; number * plane < begin + count; ++number) {  // planes of 16 channels
    if (number % blocks != blocks - 1) continue;
    zero(std::max(number * plane, begin / step * step), std::min((number + 1) * plane, begin + count));
  }
}

// A flat element whose tensors are all of type T, in place.
template <class T, class Each>
void run_flat(const PortableElement& e, const Walk& walk, std::int64_t first, std::int64_t last, Each each) {
  const std::int64_t begin = first * kStaged, count = std::min(last * kStaged, walk.channels) - begin;
  const T* in[PortableElement::kMaxTensors] = {};
  for (std::size_t t = 0; t < static_cast<std::size_t>(e.reads); ++t) in[t] = static_cast<const T*>(e.tensors[t].data) + begin;
  T* const out = static_cast<T*>(e.written(0).data) + begin;
  each(e.functor.data(), in, out, count);
  if (wants_zeros(e)) zero_padding(e, begin, out, count);
}

// Whether all tensors have this type, and none is added to.
bool is_all(const PortableElement& e, DataType type) {
  const auto end = e.tensors.begin() + static_cast<std::ptrdiff_t>(count_of(e));
  return std::all_of(e.tensors.begin(), end, [type](const TensorView& view) { return view.type == type && !view.add; });
}

void run_each(const PortableElement& given, std::int64_t first, std::int64_t last) {
  PortableElement e = given;
  const Walk walk = walk_of(e);
  if (walk.flat && is_all(e, DataType::bf16)) return run_flat<Bf16>(given, walk, first, last, e.kernel->each_bf16);
  if (walk.flat && is_all(e, DataType::f32)) return run_flat<float>(given, walk, first, last, e.kernel->each);
  alignas(64) float staged[PortableElement::kMaxTensors][kStaged];
  const TensorView& written = e.written(0);
  const bool padded = walk.flat && wants_zeros(given);
  for (std::int64_t unit = first; unit < last; ++unit) {
    const Patch patch = patch_of(e, walk, unit);
    const float* in[PortableElement::kMaxTensors] = {};
    for (std::size_t t = 0; t < static_cast<std::size_t>(e.reads); ++t) in[t] = load(e.tensors[t], e.pixels, patch, staged[t]);
    float* const direct = in_place(written, e.pixels, patch);
    float* const out = direct != nullptr ? direct : staged[e.reads];
    e.kernel->each(e.functor.data(), in, out, patch.lines * patch.channels);
    if (padded) zero_padding(given, patch.first_channel, out, patch.channels);
    if (direct == nullptr) store(written, e.pixels, patch, out);
  }
}

// ---- Rows ----

void run_row(const PortableElement& e, std::vector<float>& staged, std::int64_t place) {
  const Patch patch{place, 1, 0, e.channels, true};
  const std::int64_t step = divided_up(e.channels, 16) * 16;
  RowArrays row{.channels = e.channels, .divisor = e.divisor};
  float* next = staged.data();
  for (std::size_t t = 0; t < static_cast<std::size_t>(e.reads); ++t, next += step) {
    const TensorView& view = e.tensors[t];
    if (view.by_channel)
      row.in[t] = load(view, e.pixels, patch, next);
    else
      row.place_in[t] = load_place(view, e.pixels, place);
  }
  float* out[PortableElement::kMaxTensors] = {};
  for (std::size_t t = 0; t < static_cast<std::size_t>(e.writes); ++t, next += step) {
    const TensorView& view = e.written(static_cast<int>(t));
    if (!view.by_channel) continue;
    out[t] = view.data == nullptr ? nullptr : in_place(view, e.pixels, patch);
    row.out[t] = out[t] != nullptr ? out[t] : next;
  }
  e.kernel->row(e.functor.data(), row);
  for (std::size_t t = 0; t < static_cast<std::size_t>(e.writes); ++t) {
    const TensorView& view = e.written(static_cast<int>(t));
    if (view.data == nullptr) continue;
    if (!view.by_channel)
      store_place(view, e.pixels, place, row.place_out[t]);
    else if (out[t] == nullptr)
      store(view, e.pixels, patch, row.out[t]);
  }
}

void run_rows(const PortableElement& e, std::int64_t first, std::int64_t last) {
  thread_local std::vector<float> staged;
  staged.resize(count_of(e) * static_cast<std::size_t>(divided_up(e.channels, 16) * 16));
  const std::int64_t places = e.n * e.pixels;
  for (std::int64_t place = first * kUnitPlaces; place < std::min(last * kUnitPlaces, places); ++place) run_row(e, staged, place);
}

// ---- Sums: a unit is one chunk of one group ----

void sum_patch(const PortableElement& e, const Patch& patch, float* totals) {
  alignas(64) float staged[PortableElement::kMaxTensors][kStaged];
  const float* in[PortableElement::kMaxTensors] = {};
  for (std::size_t t = 0; t < static_cast<std::size_t>(e.reads); ++t) in[t] = load(e.tensors[t], e.pixels, patch, staged[t]);
  e.kernel->sum(e.functor.data(), in, patch.lines, patch.channels, totals + patch.first_channel);
}

void run_sum(const PortableElement& e, std::int64_t unit) {
  const std::int64_t chunks = e.chunks(), group = unit / chunks, chunk = unit % chunks;
  const std::int64_t begin = group * e.rows() + chunk * e.chunk_rows();
  const std::int64_t end = std::min(begin + e.chunk_rows(), (group + 1) * e.rows());
  float* const totals = e.partial + unit * e.channels;
  std::fill_n(totals, e.channels, 0.0F);
  const bool lines = in_lines(e);
  const std::int64_t wide = lines ? std::min(e.channels, kStaged) : 16;
  for (std::int64_t channel = 0; channel < e.channels; channel += wide) {
    const std::int64_t together = kStaged / wide;
    for (std::int64_t line = begin; line < end; line += together) {
      const std::int64_t channels = std::min(wide, e.channels - channel);
      sum_patch(e, {line, std::min(together, end - line), channel, channels, false}, totals);
    }
  }
}

// ---- Gathers ----

// The division of a gather: a unit is some channels of some neighbouring places of one image.
struct GatherWalk {
  bool in_blocks = false;
  std::int64_t together = 1, parts = 1;       // channels per unit; units for all channels
  std::int64_t pixels = 1, pixel_groups = 1;  // places per unit; units for an image

  std::int64_t units_of_image() const { return parts * pixel_groups; }
};

bool has_lines(const TensorView& view) {  // a place's channels are contiguous
  return view.channels <= 16 || view.stride_block == 16;
}

GatherWalk gather_walk_of(const PortableElement& e) {
  const auto begin = e.tensors.begin(), end = begin + e.reads;
  const bool lines = std::all_of(begin, end, has_lines) && has_lines(e.written(0));
  const bool alike = std::all_of(begin, end, [&](const TensorView& view) { return view.type == begin->type; });
  GatherWalk walk;
  walk.in_blocks = !lines || !alike;
  walk.together = walk.in_blocks ? 16 : std::min(e.channels, kStaged);
  walk.parts = divided_up(e.channels, walk.together);
  walk.pixels = std::min(e.pixels, kStaged / walk.together);
  walk.pixel_groups = divided_up(e.pixels, walk.pixels);
  return walk;
}

void run_gather(const PortableElement& e, std::int64_t first_unit, std::int64_t last_unit) {
  alignas(64) float staged[kStaged];
  const GatherWalk walk = gather_walk_of(e);
  const TensorView& written = e.written(0);
  for (std::int64_t unit = first_unit; unit < last_unit; ++unit) {
    const std::int64_t sample = unit / walk.units_of_image(), of_image = unit % walk.units_of_image();
    const std::int64_t pixel = of_image % walk.pixel_groups * walk.pixels;
    Patch patch{.first_line = sample * e.pixels + pixel,
                .lines = std::min(walk.pixels, e.pixels - pixel),
                .first_channel = of_image / walk.pixel_groups * walk.together};
    patch.channels = std::min(walk.together, e.channels - patch.first_channel);
    patch.is_end = patch.first_channel + patch.channels == e.channels;
    GatherPatch gathered{.element = &e,
                         .sample = sample,
                         .first_pixel = static_cast<std::int32_t>(pixel),
                         .pixels = static_cast<std::int32_t>(patch.lines),
                         .first_channel = static_cast<std::int32_t>(patch.first_channel),
                         .channels = static_cast<std::int32_t>(patch.channels),
                         .in_blocks = walk.in_blocks};
    float* const direct = in_place(written, e.pixels, patch);
    float* const out = direct != nullptr ? direct : staged;
    e.kernel->gather(gathered, out);
    if (direct == nullptr) store(written, e.pixels, patch, out);
  }
}

// ---- Memory use ----

// The memory of a tensor from its first element to its last. Kernels of the forms `each` and `sum` run over whole packs of
// channels on a GPU, so they also read the padding after the last one.
MemoryUse use_of(const PortableElement& e, const TensorView& view, bool write) {
  const bool packs = write || e.kernel->form == PortableForm::each || e.kernel->form == PortableForm::sum;
  const std::int64_t channels = packs ? view.padded : e.channels;
  std::int64_t last = (e.n - 1) * view.stride_n + (e.pixels - 1) * view.stride_pixel;
  if (view.by_channel) last += (channels - 1) / 16 * view.stride_block + (channels - 1) % 16;
  return {view.data, static_cast<std::size_t>(last + 1) * size_of(view.type), write};
}

// A tensor read by a gather has its own places and channels.
PortableElement over_images(PortableElement e, const TensorView& view) {
  e.pixels = std::int64_t{view.height} * view.width;
  e.channels = view.channels;
  return e;
}

void add_written(const PortableElement& e, const TensorView& view, std::vector<MemoryUse>& uses) {
  if (view.data == nullptr) return;
  if (view.add) uses.push_back(use_of(e, view, false));
  uses.push_back(use_of(e, view, true));
}

}  // namespace

std::vector<MemoryUse> uses(const void* element) {
  const PortableElement& e = element_of(element);
  std::vector<MemoryUse> uses;
  for (std::size_t t = 0; t < static_cast<std::size_t>(e.reads); ++t) {
    const bool gathers = e.kernel->form == PortableForm::gather;
    uses.push_back(use_of(gathers ? over_images(e, e.tensors[t]) : e, e.tensors[t], false));
  }
  if (e.kernel->form == PortableForm::sum) {
    uses.push_back({e.partial, e.partial_bytes(), true});
  } else {
    for (int t = 0; t < e.writes; ++t) add_written(e, e.written(t), uses);
  }
  return uses;
}

std::int64_t units(const void* element) {
  PortableElement e = element_of(element);
  switch (e.kernel->form) {
    case PortableForm::each: return walk_of(e).units();
    case PortableForm::row: return divided_up(e.n * e.pixels, kUnitPlaces);
    case PortableForm::sum: return e.groups() * e.chunks();
    case PortableForm::gather: return e.n * gather_walk_of(e).units_of_image();
  }
  return 0;
}

void run_on_host(const void* element, std::int64_t first, std::int64_t last) {
  const PortableElement& e = element_of(element);
  switch (e.kernel->form) {
    case PortableForm::each: return run_each(e, first, last);
    case PortableForm::row: return run_rows(e, first, last);
    case PortableForm::sum:
      for (std::int64_t unit = first; unit < last; ++unit) run_sum(e, unit);
      return;
    case PortableForm::gather: return run_gather(e, first, last);
  }
}

std::vector<MemoryUse> finish_uses(const void* element) {
  PortableElement e = element_of(element);
  std::vector<MemoryUse> uses = {{e.partial, e.partial_bytes(), false}};
  e.n = e.groups();
  e.pixels = 1;
  add_written(e, e.written(0), uses);
  return uses;
}

std::int64_t finish_units(const void* element) { return element_of(element).groups(); }

void finish_on_host(const void* element, std::int64_t first, std::int64_t last) {
  const PortableElement& e = element_of(element);
  std::vector<float> totals(static_cast<std::size_t>(e.channels));
  for (std::int64_t group = first; group < last; ++group) {
    const float* const chunks = e.partial + group * e.chunks() * e.channels;
    for (std::int64_t c = 0; c < e.channels; ++c) {
      double total = 0;
      for (std::int64_t chunk = 0; chunk < e.chunks(); ++chunk) total += static_cast<double>(chunks[chunk * e.channels + c]);
      totals[static_cast<std::size_t>(c)] = static_cast<float>(total);
    }
    store(e.written(0), 1, {group, 1, 0, e.channels, true}, totals.data());
  }
}

}  // namespace millrace::portable

#include "compute/gather_host.h"

#include <algorithm>

#include "compute/staging.h"

namespace millrace::portable {
namespace {

constexpr std::int64_t kStaged = 1024;  // approximate number of values per unit

// The division of a gather: a unit is some channels of some neighbouring places of one image.
struct Walk {
  bool in_blocks = false;
  std::int64_t together = 1, parts = 1;       // channels per unit; units for all channels
  std::int64_t pixels = 1, pixel_groups = 1;  // places per unit; units for an image

  std::int64_t units_of_image() const { return parts * pixel_groups; }
};

std::int64_t rounded_up(std::int64_t count, std::int64_t by) { return (count + by - 1) / by; }

// A place's channels are contiguous.
bool in_lines(const TensorView& view) { return view.channels <= 16 || view.stride_block == 16; }

Walk walk_of(const PortableElement& e) {
  const auto begin = e.tensors.begin(), end = begin + e.reads;
  const bool lines = std::all_of(begin, end, in_lines) && in_lines(e.written(0));
  const bool alike = std::all_of(begin, end, [&](const TensorView& view) { return view.type == begin->type; });
  Walk walk;
  walk.in_blocks = !lines || !alike;
  walk.together = walk.in_blocks ? 16 : std::min(e.channels, kStaged);
  walk.parts = rounded_up(e.channels, walk.together);
  walk.pixels = std::min(e.pixels, kStaged / walk.together);
  walk.pixel_groups = rounded_up(e.pixels, walk.pixels);
  return walk;
}

}  // namespace

std::int64_t gather_units(const PortableElement& e) { return e.n * walk_of(e).units_of_image(); }

void run_gather(const PortableElement& e, std::int64_t first_unit, std::int64_t last_unit) {
  alignas(64) float staged[kStaged];
  const Walk walk = walk_of(e);
  const TensorView& written = e.written(0);
  for (std::int64_t unit = first_unit; unit < last_unit; ++unit) {
    const std::int64_t sample = unit / walk.units_of_image(), of_image = unit % walk.units_of_image();
    const std::int64_t pixel = of_image % walk.pixel_groups * walk.pixels;
    Patch patch;
    patch.first_line = sample * e.pixels + pixel;
    patch.lines = std::min(walk.pixels, e.pixels - pixel);
    patch.first_channel = of_image / walk.pixel_groups * walk.together;
    patch.channels = std::min(walk.together, e.channels - patch.first_channel);
    patch.is_end = patch.first_channel + patch.channels == e.channels;
    GatherPatch gathered;
    gathered.element = &e;
    gathered.sample = sample;
    gathered.first_pixel = static_cast<std::int32_t>(pixel);
    gathered.pixels = static_cast<std::int32_t>(patch.lines);
    gathered.first_channel = static_cast<std::int32_t>(patch.first_channel);
    gathered.channels = static_cast<std::int32_t>(patch.channels);
    gathered.in_blocks = walk.in_blocks;
    float* const direct = in_place(written, e.pixels, patch);
    float* const out = direct != nullptr ? direct : staged;
    e.kernel->gather(gathered, out);
    if (direct == nullptr) store(written, e.pixels, patch, out);
  }
}

}  // namespace millrace::portable

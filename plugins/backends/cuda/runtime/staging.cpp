#include "staging.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "layers/map_spec.h"
#include "millrace/error.h"

namespace millrace::cuda {
namespace {

// Offsets of the small arrays, one after the other.
struct SideLayout {
  std::size_t image_of = 0, records = 0, labels = 0, second_labels = 0, weights = 0, shares = 0, numbers = 0, bytes = 0;

  SideLayout(std::size_t count, std::uint32_t numbers_each) {
    const auto take = [&](std::size_t size) {
      const std::size_t at = bytes;
      bytes = round_up(bytes + count * size, kAlignment);
      return at;
    };
    image_of = take(sizeof(std::int32_t));
    records = take(sizeof(AugmentationRecord));
    labels = take(sizeof(float));
    second_labels = take(sizeof(float));
    weights = take(sizeof(float));
    shares = take(sizeof(float));
    numbers = take(numbers_each * sizeof(float));
  }
};

}  // namespace

TargetNeeds TargetNeeds::of(const Network& network, std::span<const LossAt> losses) {
  TargetNeeds needs;
  for (const LossAt& measured : losses) {
    const Shape& output = network.shape_of(measured.output.value_or(network.result()));
    const LossTarget target = measured.loss->info().target;
    const bool vector = output.elements() == output[0];
    if (!vector) needs.scale = std::max(needs.scale, static_cast<int>(output[1]) / network.input.height);
    if (target == LossTarget::classes) needs.channels = std::max(needs.channels, 1);
    if (target != LossTarget::values) continue;
    if (vector)
      needs.numbers = static_cast<std::uint32_t>(output[0]);
    else
      needs.channels = network.input.channels;
  }
  return needs;
}

Staging::Staging(Machine& machine, std::uint32_t samples, ImageShape window, const TargetNeeds& needs,
                 const std::vector<ResidentSet>& resident_sets, DeviceMeter* meter)
    : machine_(machine), samples_(samples), needs_(needs), meter_(meter), queue_(machine.make_queue("copy")) {
  for (Place& place : places_) {
    reserve(place.pixels, samples * window.bytes(), "pixels of a batch");
    reserve(place.targets, samples * needs.bytes(window), "target images of a batch");
    reserve(place.side, SideLayout(samples, needs.numbers).bytes, "labels and records of a batch");
  }
  for (const ResidentSet& set : resident_sets) resident_.emplace_back(machine, set);
}

std::size_t Staging::device_bytes(std::uint32_t samples, ImageShape window, const TargetNeeds& needs) {
  return 2 * (samples * (window.bytes() + needs.bytes(window)) + SideLayout(samples, needs.numbers).bytes);
}

void Staging::reserve(DeviceMemory& memory, std::size_t bytes, const char* what) {
  if (memory.bytes() >= bytes) return;
  memory = DeviceMemory();
  memory = DeviceMemory(machine_, bytes, what);
}

Staging::Side& Staging::free_side(std::size_t bytes) {
  // As many as batches being copied: a batch is held until its copy completes, so there are only a few.
  for (Side& side : sides_) {
    if (side.memory->bytes() >= bytes && (!side.copied || side.copied->complete())) return side;
  }
  return sides_.emplace_back(Side{std::make_unique<HostMemory>(machine_, bytes), nullptr});
}

void Staging::make_room(Place& place, const Batch& batch, std::uint32_t count) {
  const std::size_t pixels = batch.resident_set < 0 ? batch.image.bytes() : 0, targets = needs_.bytes(batch.image);
  if (count * pixels <= place.pixels.bytes() && count * targets <= place.targets.bytes()) return;
  finish();
  if (place.read) place.read->wait();
  reserve(place.pixels, samples_ * pixels, "pixels of a batch");
  reserve(place.targets, samples_ * targets, "target images of a batch");
}

void Staging::copy_pixels(const Batch& batch, std::uint32_t begin, std::int32_t* image_of, StagedBatch& staged) {
  const auto count = static_cast<std::uint32_t>(staged.count);
  if (batch.resident_set >= 0) {
    ResidentImages& images = resident_.at(static_cast<std::size_t>(batch.resident_set));
    images.bring(batch, begin, count, image_of, *queue_);
    staged.pixels = images.pixels();
    staged.images = images.rows();
    return;
  }
  const DeviceMemory& pixels = places_[place_].pixels;
  queue_->copy_in(pixels.data(), batch.pixels + begin * batch.image.bytes(), count * batch.image.bytes());
  staged.pixels = pixels.as<std::uint8_t>();
  staged.images = count;
  staged.image_of = nullptr;
}

StagedBatch Staging::load(Queue& compute, const Ref<Batch>& batch, std::uint32_t begin, std::uint32_t count) {
  if (count > samples_) {
    fail(ErrorKind::usage, "a batch of {} samples: the network was compiled for at most {}", count, samples_);
  }
  Place& place = places_[place_ ^= 1];
  if (std::exchange(place.lent, true)) place.read = compute.mark();
  make_room(place, *batch, count);
  const std::uint8_t* const pixels = batch->pixels + begin * batch->image.bytes();
  const std::size_t pixel_bytes = count * batch->image.bytes();
  const TargetSpec& target = batch->target;
  const bool images =
      needs_.channels > 0 && target.scale == needs_.scale && target.channels(batch->image.channels) == needs_.channels;
  const std::uint8_t* const targets = images ? batch->targets + begin * batch->target_bytes() : nullptr;
  const std::size_t target_bytes = images ? count * batch->target_bytes() : 0;
  const bool numbers = needs_.numbers > 0 && batch->numbers_for_loss() == needs_.numbers;
  const SideLayout layout(count, needs_.numbers);
  Side& side = free_side(SideLayout(samples_, needs_.numbers).bytes);
  std::byte* const host = side.memory->data();
  machine_.host_access(host, layout.bytes, true);
  const auto put = [&](std::size_t at, const auto* values) {
    if (values != nullptr) std::memcpy(host + at, values + begin, count * sizeof *values);
  };
  const auto put_classes = [&](std::size_t at, const std::int32_t* values) {
    std::transform(values + begin, values + begin + count, reinterpret_cast<float*>(host + at),
                   [](std::int32_t value) { return static_cast<float>(value); });
  };
  const bool mixes = batch->shares != nullptr;
  put(layout.records, batch->records);
  put_classes(layout.labels, batch->labels);
  put_classes(layout.second_labels, mixes ? batch->second_labels : batch->labels);
  put(layout.weights, batch->weights);
  put(layout.shares, batch->shares);
  if (!mixes) std::fill_n(reinterpret_cast<float*>(host + layout.shares), count, 1.0F);
  if (numbers) {
    std::memcpy(host + layout.numbers, batch->numbers + std::size_t{begin} * needs_.numbers,
                count * needs_.numbers * sizeof(float));
  }

  const std::byte* const device = place.side.data();
  const auto floats = [&](std::size_t at) { return reinterpret_cast<const float*>(device + at); };
  StagedBatch staged{.image_of = reinterpret_cast<const std::int32_t*>(device + layout.image_of),
                     .records = reinterpret_cast<const AugmentationRecord*>(device + layout.records),
                     .labels = floats(layout.labels),
                     .second_labels = floats(layout.second_labels),
                     .weights = floats(layout.weights),
                     .shares = floats(layout.shares),
                     .numbers = numbers ? floats(layout.numbers) : nullptr,
                     .targets = images ? place.targets.as<std::uint8_t>() : nullptr,
                     .target = batch->target,
                     .image = batch->image,
                     .window = batch->window,
                     .count = count};
  queue_->wait(place.read);
  {
    const DeviceMeter::Piece piece(meter_, *queue_, "copy", "batch", &DeviceTimes::copying);
    copy_pixels(*batch, begin, reinterpret_cast<std::int32_t*>(host + layout.image_of), staged);
    if (images) queue_->copy_in(place.targets.data(), targets, target_bytes);
    queue_->copy_in(place.side.data(), host, layout.bytes);
  }
  side.copied = queue_->mark();
  compute.wait(side.copied);
  batch->in_flight.fetch_add(1);
  side.copied->then([&machine = machine_, pixels, pixel_bytes, targets, target_bytes, kept = batch](const Error*) mutable {
    machine.host_access(pixels, pixel_bytes, true);  // the host's again when the last user lets go of the batch
    if (targets != nullptr) machine.host_access(targets, target_bytes, true);
    kept->in_flight.fetch_sub(1);
    kept = nullptr;
  });
  return staged;
}

void Staging::release(Queue& compute) {
  places_[place_].read = compute.mark();
  places_[place_].lent = false;
}

void Staging::finish() { queue_->mark()->wait(); }

// ---- Images that stay on the device ----

ResidentImages::ResidentImages(Machine& machine, const ResidentSet& set)
    : set_(set), memory_(machine, plan(set).bytes, plan(set).what) {}

MemoryPlan::Item ResidentImages::plan(const ResidentSet& set) {
  return {"images of [" + set.graph + "] held on the device", (1 + set.samples) * set.image.bytes()};
}

std::int32_t& ResidentImages::row_of(std::uint64_t index) {
  if (index >= row_of_.size()) row_of_.resize(index + 1);
  return row_of_[index];
}

void ResidentImages::bring(const Batch& batch, std::uint32_t begin, std::uint32_t count, std::int32_t* rows, Queue& copy) {
  const std::int64_t known = rows_;
  for (std::uint32_t n = 0; n < count; ++n) {
    rows[n] = 0;
    if (batch.weights[begin + n] == 0) continue;
    std::int32_t& row = row_of(batch.samples[begin + n].key.index);
    if (row == 0) row = static_cast<std::int32_t>(rows_++);
    rows[n] = row;
  }
  if (static_cast<std::uint64_t>(rows_) > 1 + set_.samples) {
    fail(ErrorKind::device, "[{}] has more images than the {} that devices were to hold", set_.graph, set_.samples);
  }
  const std::size_t bytes = set_.image.bytes();
  std::int64_t here = known;
  for (std::uint32_t n = 0; n < count;) {
    std::uint32_t images = 0;  // new ones, consecutive both in the batch and in their rows
    while (n + images < count && rows[n + images] == here + images) ++images;
    if (images > 0) {
      copy.copy_in(memory_.data() + static_cast<std::size_t>(here) * bytes, batch.pixels + (begin + n) * bytes, images * bytes);
    }
    here += images;
    n += std::max(images, 1U);
  }
}

void check_fit(const std::vector<ResidentSet>& sets, const MemoryPlan& plan, const DeviceInfo& device) {
  std::size_t images = 0;
  std::string names;
  for (const ResidentSet& set : sets) {
    images += ResidentImages::plan(set).bytes;
    names += fmt::format("{}{} of [{}], {} each", names.empty() ? "" : " and ", set.samples, set.graph, to_string(set.image));
  }
  if (images == 0 || plan.total() <= device.memory) return;
  const auto mebibytes = [](std::size_t bytes) { return static_cast<double>(bytes) / (1 << 20); };
  fail(ErrorKind::usage,
       "the images that {}:{} is to hold ({}) take {:.1f} MiB. The network needs {:.1f} MiB more, which exceeds its {:.1f} MiB: "
       "take fewer or smaller images, or set `device = false` in their cache",
       device.backend, device.index, names, mebibytes(images), mebibytes(plan.total() - images), mebibytes(device.memory));
}

}  // namespace millrace::cuda

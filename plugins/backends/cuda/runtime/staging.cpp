#include "staging.h"

#include <cstring>
#include <utility>

#include "layers/map_spec.h"
#include "millrace/error.h"

namespace millrace::cuda {
namespace {

// Where the small arrays lie, one behind the other.
struct SideLayout {
  std::size_t image_of = 0, records = 0, labels = 0, second_labels = 0, weights = 0, shares = 0, bytes = 0;

  explicit SideLayout(std::size_t count) {
    const auto take = [&](std::size_t size) {
      const std::size_t at = bytes;
      bytes = round_up(bytes + count * size, kAlignment);
      return at;
    };
    image_of = take(sizeof(std::int32_t));
    records = take(sizeof(AugmentationRecord));
    labels = take(sizeof(std::int32_t));
    second_labels = take(sizeof(std::int32_t));
    weights = take(sizeof(float));
    shares = take(sizeof(float));
  }
};

}  // namespace

Staging::Staging(Machine& machine, std::uint32_t samples, ImageShape window, std::int64_t classes,
                 const std::vector<ResidentSet>& resident_sets, StepTrace* trace)
    : machine_(machine), samples_(samples), classes_(classes), trace_(trace), queue_(machine.make_queue("copy")) {
  for (Place& place : places_) {
    reserve(place.pixels, samples * window.bytes(), "pixels of a batch");
    reserve(place.side, SideLayout(samples).bytes, "labels and records of a batch");
  }
  for (const ResidentSet& set : resident_sets) resident_.emplace_back(machine, set);
}

std::size_t Staging::device_bytes(std::uint32_t samples, ImageShape window) {
  return 2 * (samples * window.bytes() + SideLayout(samples).bytes);
}

void Staging::reserve(DeviceMemory& memory, std::size_t bytes, const char* what) {
  if (memory.bytes() >= bytes) return;
  memory = DeviceMemory();
  memory = DeviceMemory(machine_, bytes, what);
}

Staging::Side& Staging::free_side(std::size_t bytes) {
  // As many as batches are on their way at once: a batch is held until its copy is done, so they cannot become many.
  for (Side& side : sides_) {
    if (side.memory->bytes() >= bytes && (!side.copied || side.copied->complete())) return side;
  }
  return sides_.emplace_back(Side{std::make_unique<HostMemory>(machine_, bytes), nullptr});
}

void Staging::check_labels(const Batch& batch, std::uint32_t begin, std::uint32_t count) const {
  const auto check = [&](std::uint32_t slot, std::int32_t label) {
    if (label >= 0 && label < classes_) return;
    fail(ErrorKind::data, "row {} of the batch has label {}, but the network's output has {} classes (0 to {})", slot - begin,
         label, classes_, classes_ - 1);
  };
  for (std::uint32_t slot = begin; slot < begin + count; ++slot) {
    if (batch.weights[slot] == 0) continue;
    check(slot, batch.labels[slot]);
    if (batch.shares != nullptr && batch.shares[slot] < 1) check(slot, batch.second_labels[slot]);
  }
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
  check_labels(*batch, begin, count);
  Place& place = places_[place_ ^= 1];
  if (std::exchange(place.lent, true)) place.read = compute.mark();
  const std::uint8_t* const pixels = batch->pixels + begin * batch->image.bytes();
  const std::size_t pixel_bytes = count * batch->image.bytes();
  if (batch->resident_set < 0 && pixel_bytes > place.pixels.bytes()) {
    finish();
    if (place.read) place.read->wait();
    reserve(place.pixels, samples_ * batch->image.bytes(), "pixels of a batch");
  }
  const SideLayout layout(count);
  Side& side = free_side(SideLayout(samples_).bytes);
  std::byte* const host = side.memory->data();
  machine_.host_access(host, layout.bytes, true);
  const auto put = [&](std::size_t at, const auto* values) {
    if (values != nullptr) std::memcpy(host + at, values + begin, count * sizeof *values);
  };
  put(layout.records, batch->records);
  put(layout.labels, batch->labels);
  put(layout.second_labels, batch->second_labels);
  put(layout.weights, batch->weights);
  put(layout.shares, batch->shares);

  const std::byte* const device = place.side.data();
  const bool mixes = batch->shares != nullptr;
  StagedBatch staged;
  staged.image_of = reinterpret_cast<const std::int32_t*>(device + layout.image_of);
  staged.records = reinterpret_cast<const AugmentationRecord*>(device + layout.records);
  staged.labels = reinterpret_cast<const std::int32_t*>(device + layout.labels);
  staged.second_labels = mixes ? reinterpret_cast<const std::int32_t*>(device + layout.second_labels) : nullptr;
  staged.weights = reinterpret_cast<const float*>(device + layout.weights);
  staged.shares = mixes ? reinterpret_cast<const float*>(device + layout.shares) : nullptr;
  staged.image = batch->image;
  staged.window = batch->window;
  staged.count = count;
  queue_->wait(place.read);
  {
    const StepTrace::Piece piece(trace_, *queue_, "copy", "batch");
    copy_pixels(*batch, begin, reinterpret_cast<std::int32_t*>(host + layout.image_of), staged);
    queue_->copy_in(place.side.data(), host, layout.bytes);
  }
  side.copied = queue_->mark();
  compute.wait(side.copied);
  batch->in_flight.fetch_add(1);
  side.copied->then([&machine = machine_, pixels, pixel_bytes, kept = batch]() mutable {
    machine.host_access(pixels, pixel_bytes, true);  // the host's again, whoever lets go of the batch last
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

}  // namespace millrace::cuda

// Transfers a batch to the device: its pixels from pinned memory into one of two alternating places, so that a copy overlaps with
// the previous step's compute, and the small arrays for ingest and loss. If images stay on the device, only missing ones are
// copied.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "device_meter.h"
#include "machine.h"
#include "millrace/loss.h"

namespace millrace::cuda {

// Inputs of losses other than labels.
struct TargetNeeds {
  int channels = 0;           // channels of target images, as bytes; 0: not used
  int scale = 1;              // scale of target images, see TargetSpec
  std::uint32_t numbers = 0;  // per sample

  static TargetNeeds of(const Network& network, std::span<const LossAt> losses);
  std::size_t bytes(ImageShape image) const {  // size of one sample's target image
    return ImageShape{image.height * scale, image.width * scale, channels}.bytes();
  }
};

// A share of a batch in device memory. Rows are samples; classes are float32.
struct StagedBatch {
  const std::uint8_t* pixels = nullptr;    // (images, H, W, C)
  const std::int32_t* image_of = nullptr;  // (count): each sample's index; null: identical order
  const AugmentationRecord* records = nullptr;
  const float *labels = nullptr, *second_labels = nullptr, *weights = nullptr, *shares = nullptr;
  const float* numbers = nullptr;         // (count, TargetNeeds::numbers); null: none
  const std::uint8_t* targets = nullptr;  // (count, scale * H, scale * W, channels) of TargetNeeds; null: none
  TargetSpec target;
  ImageShape image, window;
  std::int64_t images = 0, count = 0;
};

// The images of one set that stay on the device: (1 + samples, H, W, C) uint8, in order of arrival. Row 0 is black and serves
// slots without weight. A row is written once, and all its readers are submitted later: readers wait for the copies submitted
// before them, and writers do not wait.
class ResidentImages {
 public:
  ResidentImages(Machine& machine, const ResidentSet& set);
  static MemoryPlan::Item plan(const ResidentSet& set);

  // Writes each slot's row, and submits copies of missing images: consecutive slots are one copy. Throws Error(device) for more
  // images than the set's declared size.
  void bring(const Batch& batch, std::uint32_t begin, std::uint32_t count, std::int32_t* rows, Queue& copy);

  const std::uint8_t* pixels() const { return memory_.as<std::uint8_t>(); }
  std::int64_t rows() const { return rows_; }  // present or being copied

 private:
  std::int32_t& row_of(std::uint64_t index);

  ResidentSet set_;
  DeviceMemory memory_;
  std::vector<std::int32_t> row_of_;  // by the sample's index; 0: missing
  std::int64_t rows_ = 1;
};

// Throws Error(usage) if the plan, including these sets, exceeds the device's memory.
void check_fit(const std::vector<ResidentSet>& sets, const MemoryPlan& plan, const DeviceInfo& device);

class Staging {
 public:
  // trace, meter: null, or those of the replica's work.
  Staging(Machine& machine, std::uint32_t samples, ImageShape window, const TargetNeeds& needs = {},
          const std::vector<ResidentSet>& resident_sets = {}, DeviceMeter* meter = nullptr);

  // Device memory in bytes if images are not larger than the network's input.
  static std::size_t device_bytes(std::uint32_t samples, ImageShape window, const TargetNeeds& needs = {});

  // Submits the copy of slots [begin, begin + count) and makes `compute` wait for it. Holds the batch, and counts it in its
  // `in_flight`, until the copy has read it.
  StagedBatch load(Queue& compute, const Ref<Batch>& batch, std::uint32_t begin, std::uint32_t count);
  // All readers of load()'s result have been submitted to `compute`: its place may be refilled after them.
  void release(Queue& compute);

  void finish();  // waits for the copies

 private:
  struct Place {  // on the device
    DeviceMemory pixels, targets, side;
    Ref<Mark> read;     // by compute; null: never used
    bool lent = false;  // load() returned it without a following release(): the step failed in between
  };
  struct Side {  // pinned: the small arrays of one batch until they are copied
    std::unique_ptr<HostMemory> memory;
    Ref<Mark> copied;
  };
  Side& free_side(std::size_t bytes);
  // Submits copies of pixels and sets their destination. `image_of`: pinned.
  void copy_pixels(const Batch& batch, std::uint32_t begin, std::int32_t* image_of, StagedBatch& staged);
  // Enlarges a place that is too small for a batch of such images, once nothing reads it any more.
  void make_room(Place& place, const Batch& batch, std::uint32_t count);
  void reserve(DeviceMemory& memory, std::size_t bytes, const char* what);

  Machine& machine_;
  const std::uint32_t samples_;
  const TargetNeeds needs_;
  DeviceMeter* const meter_;
  Place places_[2];
  int place_ = 0;
  std::vector<ResidentImages> resident_;  // by Batch::resident_set
  std::vector<Side> sides_;
  std::unique_ptr<Queue> queue_;  // last: its work uses the other members
};

}  // namespace millrace::cuda

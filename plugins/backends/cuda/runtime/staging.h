// How a batch gets to the device: its pixels from pinned memory into one of two places in turns, so that a copy runs under the
// compute of the step before, and beside them the small arrays that ingest and loss read. Of a batch whose images stay on the
// device, only those are copied that are not there yet.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "device_meter.h"
#include "host_memory.h"
#include "machine.h"
#include "millrace/loss.h"
#include "resident_images.h"
#include "trace.h"

namespace millrace::cuda {

// What losses read besides labels.
struct TargetNeeds {
  int channels = 0;           // of target images, as bytes; 0: none are read
  int scale = 1;              // of target images, see TargetSpec
  std::uint32_t numbers = 0;  // of each sample

  static TargetNeeds of(const Network& network, std::span<const LossAt> losses);
  std::size_t bytes(ImageShape image) const {  // of one sample's target image
    return ImageShape{image.height * scale, image.width * scale, channels}.bytes();
  }
};

// A share of a batch in device memory. Rows are samples; classes are float32.
struct StagedBatch {
  const std::uint8_t* pixels = nullptr;    // (images, H, W, C)
  const std::int32_t* image_of = nullptr;  // (count): which of them each sample's is; null: they are the samples'
  const AugmentationRecord* records = nullptr;
  const float *labels = nullptr, *second_labels = nullptr, *weights = nullptr, *shares = nullptr;
  const float* numbers = nullptr;         // (count, TargetNeeds::numbers); null: none
  const std::uint8_t* targets = nullptr;  // (count, scale * H, scale * W, channels) of TargetNeeds; null: none
  TargetSpec target;
  ImageShape image, window;
  std::int64_t images = 0, count = 0;
};

class Staging {
 public:
  // trace, meter: null, or of the replica's work.
  Staging(Machine& machine, std::uint32_t samples, ImageShape window, const TargetNeeds& needs = {},
          const std::vector<ResidentSet>& resident_sets = {}, StepTrace* trace = nullptr, DeviceMeter* meter = nullptr);

  // Bytes of device memory when images are no larger than the network's input.
  static std::size_t device_bytes(std::uint32_t samples, ImageShape window, const TargetNeeds& needs = {});

  // Submits the copy of slots [begin, begin + count) and makes `compute` wait for it. The batch is kept, and counted in its
  // `in_flight`, until it has been read.
  StagedBatch load(Queue& compute, const Ref<Batch>& batch, std::uint32_t begin, std::uint32_t count);
  // All readers of what load() gave have been submitted to `compute`: its place may be filled again after them.
  void release(Queue& compute);

  void finish();  // waits for the copies

 private:
  struct Place {  // on the device
    DeviceMemory pixels, targets, side;
    Ref<Mark> read;     // by compute; null: never used
    bool lent = false;  // load() gave it, and release() did not come: the step failed in between
  };
  struct Side {  // pinned: the small arrays of one batch until they are copied
    std::unique_ptr<HostMemory> memory;
    Ref<Mark> copied;
  };
  Side& free_side(std::size_t bytes);
  // Submits copies of pixels and says where they will be. `image_of`: pinned.
  void copy_pixels(const Batch& batch, std::uint32_t begin, std::int32_t* image_of, StagedBatch& staged);
  // Grows what is too small for a batch of such images, when nothing reads it any more.
  void make_room(Place& place, const Batch& batch, std::uint32_t count);
  void reserve(DeviceMemory& memory, std::size_t bytes, const char* what);

  Machine& machine_;
  const std::uint32_t samples_;
  const TargetNeeds needs_;
  StepTrace* const trace_;
  DeviceMeter* const meter_;
  Place places_[2];
  int place_ = 0;
  std::vector<ResidentImages> resident_;  // by Batch::resident_set
  std::vector<Side> sides_;
  std::unique_ptr<Queue> queue_;  // last: its work uses the rest
};

}  // namespace millrace::cuda

#include "resident_images.h"

#include <algorithm>

#include "millrace/error.h"

namespace millrace::cuda {

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
       "the images that {}:{} is to hold ({}) take {:.1f} MiB. The network needs {:.1f} MiB besides, and that is more than its "
       "{:.1f} MiB: take fewer or smaller images, or set `device = false` in their cache",
       device.backend, device.index, names, mebibytes(images), mebibytes(plan.total() - images), mebibytes(device.memory));
}

}  // namespace millrace::cuda

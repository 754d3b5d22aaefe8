#include "cuda_lane.h"

#include <bit>

#include "errors.h"
#include "kernels/plain.h"
#include "launch.h"

namespace millrace::cuda {
namespace {

// Buckets consist of whole packs (backend/parameter_plan.h).
std::int64_t packs_of(std::size_t elements) { return static_cast<std::int64_t>((elements + kPack - 1) / kPack); }

}  // namespace

CudaLane::CudaLane(Device& device)
    : device_(device),
      rank_{device.info().index, fmt::format("cuda:{} ({})", device.info().index, device.info().name)},
      marks_(Marks::make(rank_.device)) {
  use_device(rank_.device);
  int lowest = 0;
  int highest = 0;
  check(cudaDeviceGetStreamPriorityRange(&lowest, &highest), "cudaDeviceGetStreamPriorityRange");
  check(cudaDeviceGetAttribute(&multiprocessors_, cudaDevAttrMultiProcessorCount, rank_.device), "cudaDeviceGetAttribute");
  check(cudaStreamCreateWithPriority(&stream_, cudaStreamNonBlocking, highest), "cudaStreamCreateWithPriority");
}

CudaLane::~CudaLane() {
  cudaSetDevice(rank_.device);
  cudaStreamSynchronize(stream_);
  marks_->close();
  cudaStreamDestroy(stream_);
}

void CudaLane::wait(const Ref<Event>& event) {
  use_device(rank_.device);
  wait_in(stream_, event);
}

Ref<Event> CudaLane::record() {
  use_device(rank_.device);
  return marks_->record(stream_);
}

void* CudaLane::round(const float* from, std::size_t elements) {
  make_room(elements);
  run(FloatToBf16{.from = from, .to = rounded(), .packs = packs_of(elements)});
  return rounded();
}

void CudaLane::widen(float* to, std::size_t elements) {
  run(Bf16ToFloat{.from = rounded(), .to = to, .packs = packs_of(elements)});
}

// The device's own memory, accessible to the other devices of this process: NCCL's kernels there may read and write it, as those
// before NCCL 2.23 do. Memory that became too small is kept: freeing it would wait for the device, and so for a sum that another
// device may still have to join.
void CudaLane::make_room(std::size_t elements) {
  const std::size_t bytes = static_cast<std::size_t>(packs_of(elements)) * kPack * sizeof(Bf16);
  if (bytes <= room_) return;
  const std::size_t room = std::bit_ceil(bytes);
  memory_.push_back(device_.memory(room, "gradients in half precision"));
  room_ = room;
}

template <class Element>
void CudaLane::run(const Element& element) {
  use_device(rank_.device);
  check(launch(kernel_of<Element>, &element, stream_, multiprocessors_), "a conversion of gradients");
}

}  // namespace millrace::cuda

// A lane of the NCCL communicator on CUDA streams and events.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "communicator.h"
#include "marks.h"
#include "millrace/backend/backend.h"
#include "millrace/kernels.h"

namespace millrace::cuda {

// The stream has the highest priority: a sum needs few multiprocessors, but the next step waits for it, and a device that is busy
// with backward would otherwise schedule it last.
class CudaLane final : public NcclLane {
 public:
  explicit CudaLane(Device& device);  // `device` must outlive it. Throws Error(device)
  ~CudaLane() override;               // REQUIRES: no other device uses its memory any more
  CudaLane(const CudaLane&) = delete;
  CudaLane& operator=(const CudaLane&) = delete;

  NcclRank rank() const override { return rank_; }
  cudaStream_t stream() const override { return stream_; }
  void wait(const Ref<Event>& event) override;
  Ref<Event> record() override;
  void* round(const float* from, std::size_t elements) override;
  void widen(float* to, std::size_t elements) override;

 private:
  Bf16* rounded() const { return reinterpret_cast<Bf16*>(memory_.back().get()); }
  void make_room(std::size_t elements);
  template <class Element>
  void run(const Element& element);

  Device& device_;
  const NcclRank rank_;
  cudaStream_t stream_ = nullptr;
  std::shared_ptr<Marks> marks_;
  int multiprocessors_ = 0;
  std::vector<std::shared_ptr<std::byte>> memory_;  // the last one holds the gradients of the current sum
  std::size_t room_ = 0;                            // its size in bytes
};

}  // namespace millrace::cuda

#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "millrace/backend/backend.h"
#include "millrace/communicator.h"
#include "millrace/error.h"
#include "millrace/util/group.h"

namespace millrace {

// Sums over replicas whose memory every device of their process can read: CPU replicas, and devices with peer access. In a run of
// several processes all devices are processors.
//
// Replica 0's stream waits until every replica has filled the bucket, adds them up in replica order into replica 0's memory; the
// others' streams then copy the sum to their own. So all replicas end with the same bits.
//
// Several processes: each owns a slice of the bucket. It receives this slice from all replicas, sums it in replica order, and
// sends the sum to the other processes. So the bits do not depend on which process has which replicas.
//
// When the next backward may overwrite a bucket: it is submitted after all updates of this step and runs after its own replica's
// update, which waits for `ready`. A replica r > 0 is read by the sum before its copy starts, and `ready` is recorded after the
// copy. Replica 0 is read by every copy: therefore its stream waits for all of them before its `ready` is recorded. So no replica
// overwrites memory that another one still reads.
//
// In half precision the gradients of every replica are rounded to bf16 before they are added in float32, and so is their sum:
// half the bytes between processes. The bits are again independent of the assignment of replicas. Rounding changes a value by at
// most 2^-9 of it, so the error of a sum is at most 2^-9 of the sum of absolute values, plus 2^-9 of itself.
class LocalCommunicator : public Communicator {
 public:
  enum class Wire { fp32, bf16 };
  LocalCommunicator(const CommunicatorType::Setting& setting, Wire wire);
  void all_reduce(std::span<const Ref<GradientBucket>> buckets) override;
  void check() override;

 private:
  struct Slice {
    std::size_t begin = 0, count = 0;
  };
  int rank() const { return group_ == nullptr ? 0 : group_->rank(); }
  int ranks() const { return group_ == nullptr ? 1 : group_->size(); }
  // The process that receives from this one in each step: all targets differ, so that no link is shared.
  int target(int step) const { return (rank() + step) % ranks(); }
  std::size_t bytes_of(std::size_t elements) const { return elements * (wire_ == Wire::bf16 ? 2 : sizeof(float)); }
  Slice slice_of(int rank, std::size_t elements) const;
  void pack(const std::vector<float*>& replicas, Slice slice, std::vector<std::byte>& into) const;
  // Runs on the stream's thread.
  void sum_with_others(const std::vector<float*>& replicas, std::size_t elements);
  void exchange_slices(const std::vector<float*>& replicas, std::size_t elements);
  void add_up(const std::vector<float*>& replicas, Slice slice);
  void gather_slices(float* to, Slice mine, std::size_t elements);

  std::vector<std::unique_ptr<Stream>> streams_;
  Group* const group_;  // null if there are no other processes
  const Wire wire_;
  std::vector<std::vector<std::byte>> received_;  // by rank, as sent; reused
  std::vector<std::byte> sending_;
  std::vector<float> scratch_;
  std::mutex mutex_;  // guards the fields below
  std::optional<Error> error_;
};

}  // namespace millrace

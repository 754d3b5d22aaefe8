#include <algorithm>
#include <cstring>
#include <memory>
#include <mutex>
#include <optional>
#include <type_traits>
#include <vector>

#include "millrace/backend/backend.h"
#include "millrace/communicator.h"
#include "millrace/error.h"
#include "millrace/plugin.h"
#include "millrace/util/group.h"

namespace millrace {
namespace {

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

// to[i] = to[i] + from[i]
void add(float* __restrict to, const float* __restrict from, std::size_t elements) {
  for (std::size_t i = 0; i < elements; ++i) to[i] += from[i];
}

// Rounds half to even.
void round(const float* __restrict from, std::size_t elements, Bf16* __restrict to) {
  for (std::size_t i = 0; i < elements; ++i) to[i] = from_float<Bf16>(from[i]);
}
void widen(const Bf16* __restrict from, std::size_t elements, float* __restrict to) {
  for (std::size_t i = 0; i < elements; ++i) to[i] = to_float(from[i]);
}
void add(float* __restrict to, const Bf16* __restrict from, std::size_t elements) {
  for (std::size_t i = 0; i < elements; ++i) to[i] += to_float(from[i]);
}

LocalCommunicator::LocalCommunicator(const CommunicatorType::Setting& setting, Wire wire) : group_(setting.group), wire_(wire) {
  for (std::size_t r = 0; r < setting.devices.size(); ++r) {
    streams_.push_back(setting.devices[r]->make_stream(fmt::format("allreduce[{}]", r)));
  }
  if (group_ == nullptr && wire_ == Wire::fp32) return;
  streams_[0]->call([] {});  // throws if the devices cannot take part
  received_.resize(static_cast<std::size_t>(ranks()));
}

void LocalCommunicator::all_reduce(std::span<const Ref<GradientBucket>> buckets) {
  GradientBucket& first = *buckets[0];
  std::vector<float*> replicas;
  for (const Ref<GradientBucket>& bucket : buckets) {
    if (bucket->elements != first.elements) {
      fail(ErrorKind::device,
           "bucket {} has {} elements on replica {} and {} on replica 0: replicas of one run must share a layout", first.bucket,
           bucket->elements, bucket->replica, first.elements);
    }
    replicas.push_back(bucket->data);
    streams_[0]->wait(bucket->ready);
  }
  if (!received_.empty()) {
    streams_[0]->call([this, replicas, elements = first.elements] { sum_with_others(replicas, elements); });
  } else {
    streams_[0]->sum(first.data, std::vector<const float*>(replicas.begin(), replicas.end()), first.elements);
  }
  const Ref<Event> summed = streams_[0]->record();
  for (std::size_t r = 1; r < buckets.size(); ++r) {
    streams_[r]->wait(summed);
    streams_[r]->copy(buckets[r]->data, first.data, first.elements);
    buckets[r]->ready = streams_[r]->record();
    streams_[0]->wait(buckets[r]->ready);
  }
  first.ready = streams_[0]->record();
}

void LocalCommunicator::check() {
  const std::lock_guard lock(mutex_);
  if (error_) throw Error(*error_);
}

void LocalCommunicator::sum_with_others(const std::vector<float*>& replicas, std::size_t elements) {
  try {
    check();
    exchange_slices(replicas, elements);
    const Slice mine = slice_of(rank(), elements);
    add_up(replicas, mine);
    gather_slices(replicas[0], mine, elements);
  } catch (...) {  // out of memory too; check() throws it
    Error error = current_error();
    const std::lock_guard lock(mutex_);
    if (!error_) error_ = std::move(error);
  }
}

LocalCommunicator::Slice LocalCommunicator::slice_of(int rank, std::size_t elements) const {
  const auto size = static_cast<std::size_t>(ranks()), at = static_cast<std::size_t>(rank);
  const std::size_t begin = elements * at / size;
  return {begin, elements * (at + 1) / size - begin};
}

// Packs this slice of all local replicas, one after the other, for sending.
void LocalCommunicator::pack(const std::vector<float*>& replicas, Slice slice, std::vector<std::byte>& into) const {
  const std::size_t bytes = bytes_of(slice.count);
  into.resize(replicas.size() * bytes);
  for (std::size_t r = 0; r < replicas.size(); ++r) {
    std::byte* const to = into.data() + r * bytes;
    if (wire_ == Wire::bf16) {
      round(replicas[r] + slice.begin, slice.count, reinterpret_cast<Bf16*>(to));
    } else {
      std::memcpy(to, replicas[r] + slice.begin, bytes);
    }
  }
}

// received_[r] = this process's slice of all replicas of rank r, one after the other.
void LocalCommunicator::exchange_slices(const std::vector<float*>& replicas, std::size_t elements) {
  if (wire_ == Wire::bf16) pack(replicas, slice_of(rank(), elements), received_[static_cast<std::size_t>(rank())]);
  for (int step = 1; step < ranks(); ++step) {
    const int other = target(step);
    pack(replicas, slice_of(other, elements), sending_);
    group_->send(other, Group::kGradients, sending_);
  }
  const std::size_t bytes = bytes_of(slice_of(rank(), elements).count);
  for (int other = 0; other < ranks(); ++other) {
    if (other == rank()) continue;
    std::vector<std::byte>& theirs = received_[static_cast<std::size_t>(other)];
    group_->receive(other, Group::kGradients, theirs);
    if (bytes == 0 ? theirs.empty() : theirs.size() % bytes == 0) continue;
    fail(ErrorKind::run, "rank {} sent {} bytes of gradients, expected a multiple of {}", other, theirs.size(), bytes);
  }
}

// Sums the slice over all replicas, in their order, into scratch_.
void LocalCommunicator::add_up(const std::vector<float*>& replicas, Slice slice) {
  scratch_.resize(slice.count);
  bool is_first = true;
  const auto take = [&](const auto* values) {
    if (!std::exchange(is_first, false)) return add(scratch_.data(), values, slice.count);
    if constexpr (std::is_same_v<decltype(values), const float*>) {
      std::copy_n(values, slice.count, scratch_.data());
    } else {
      widen(values, slice.count, scratch_.data());
    }
  };
  for (int each = 0; each < ranks(); ++each) {
    if (each == rank() && wire_ == Wire::fp32) {
      for (const float* replica : replicas) take(replica + slice.begin);
      continue;
    }
    const std::vector<std::byte>& bytes = received_[static_cast<std::size_t>(each)];
    for (std::size_t at = 0; at < bytes.size(); at += bytes_of(slice.count)) {
      const std::byte* const values = bytes.data() + at;
      wire_ == Wire::bf16 ? take(reinterpret_cast<const Bf16*>(values)) : take(reinterpret_cast<const float*>(values));
    }
  }
}

void LocalCommunicator::gather_slices(float* to, Slice mine, std::size_t elements) {
  pack({scratch_.data()}, {0, mine.count}, sending_);
  for (int step = 1; step < ranks(); ++step) group_->send(target(step), Group::kGradients, sending_);
  for (int each = 0; each < ranks(); ++each) {
    std::vector<std::byte>& sum = received_[static_cast<std::size_t>(each)];
    if (each != rank()) group_->receive(each, Group::kGradients, sum);
    const std::vector<std::byte>& bytes = each == rank() ? sending_ : sum;
    const Slice slice = slice_of(each, elements);
    if (bytes.size() != bytes_of(slice.count)) {
      fail(ErrorKind::peer, "process {} sent {} bytes of gradients, expected {}: the processes run different networks", each,
           bytes.size(), bytes_of(slice.count));
    }
    if (wire_ == Wire::bf16) {
      widen(reinterpret_cast<const Bf16*>(bytes.data()), slice.count, to + slice.begin);
    } else {
      std::memcpy(to + slice.begin, bytes.data(), bytes.size());
    }
  }
}

CommunicatorType type(const char* name, const char* text, LocalCommunicator::Wire wire) {
  return {{name, text}, "", [wire](const CommunicatorType::Setting& setting) -> std::unique_ptr<Communicator> {
            return std::make_unique<LocalCommunicator>(setting, wire);
          }};
}

void add_types(Registry& registry) {
  using Wire = LocalCommunicator::Wire;
  registry.add(
      type("local", "replicas whose devices can read each other's memory; and processors of several processes", Wire::fp32));
  registry.add(type("local_bf16", "processors of several processes, which send gradients in half precision", Wire::bf16));
}

}  // namespace
}  // namespace millrace

MILLRACE_PLUGIN("communicator_local", "1.0", "Sums over replicas of one process, or processors of several.") {
  millrace::add_types(registry);
}

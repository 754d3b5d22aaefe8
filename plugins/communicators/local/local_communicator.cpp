#include "local_communicator.h"

#include <algorithm>
#include <cstring>

namespace millrace {
namespace {

// to[i] = to[i] + from[i]
void add(float* __restrict to, const float* __restrict from, std::size_t elements) {
  for (std::size_t i = 0; i < elements; ++i) to[i] += from[i];
}

}  // namespace

LocalCommunicator::LocalCommunicator(const CommunicatorType::Setting& setting) : group_(setting.group) {
  for (std::size_t r = 0; r < setting.devices.size(); ++r) {
    streams_.push_back(setting.devices[r]->make_stream(fmt::format("allreduce[{}]", r)));
  }
  if (group_ == nullptr) return;
  streams_[0]->call([] {});  // throws where the devices cannot take part
  received_.resize(static_cast<std::size_t>(group_->size()));
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
  if (group_ != nullptr) {
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
    const Slice mine = slice_of(group_->rank(), elements);
    add_up(replicas, mine);
    gather_slices(replicas[0], mine, elements);
  } catch (const Error& error) {
    const std::lock_guard lock(mutex_);
    if (!error_) error_ = error;
  }
}

LocalCommunicator::Slice LocalCommunicator::slice_of(int rank, std::size_t elements) const {
  const auto size = static_cast<std::size_t>(group_->size()), at = static_cast<std::size_t>(rank);
  const std::size_t begin = elements * at / size;
  return {begin, elements * (at + 1) / size - begin};
}

// received_[r] = this process's slice of all replicas of rank r, one behind the other.
void LocalCommunicator::exchange_slices(const std::vector<float*>& replicas, std::size_t elements) {
  for (int rank = 0; rank < group_->size(); ++rank) {
    if (rank == group_->rank()) continue;
    const Slice slice = slice_of(rank, elements);
    sending_.resize(replicas.size() * slice.count * sizeof(float));
    for (std::size_t r = 0; r < replicas.size(); ++r) {
      std::memcpy(sending_.data() + r * slice.count * sizeof(float), replicas[r] + slice.begin, slice.count * sizeof(float));
    }
    group_->send(rank, Group::kGradients, sending_);
  }
  for (int rank = 0; rank < group_->size(); ++rank) {
    if (rank != group_->rank()) group_->receive(rank, Group::kGradients, received_[static_cast<std::size_t>(rank)]);
  }
}

// The slice's sum over all replicas, in their order, into scratch_.
void LocalCommunicator::add_up(const std::vector<float*>& replicas, Slice slice) {
  scratch_.resize(slice.count);
  bool is_first = true;
  const auto take = [&](const float* values) {
    if (std::exchange(is_first, false)) {
      std::copy_n(values, slice.count, scratch_.data());
    } else {
      add(scratch_.data(), values, slice.count);
    }
  };
  for (int rank = 0; rank < group_->size(); ++rank) {
    if (rank == group_->rank()) {
      for (const float* replica : replicas) take(replica + slice.begin);
      continue;
    }
    const std::vector<std::byte>& bytes = received_[static_cast<std::size_t>(rank)];
    const auto* values = reinterpret_cast<const float*>(bytes.data());
    const std::size_t floats = bytes.size() / sizeof(float);
    for (std::size_t at = 0; at < floats; at += slice.count) take(values + at);
  }
}

void LocalCommunicator::gather_slices(float* to, Slice mine, std::size_t elements) {
  const auto bytes = std::as_bytes(std::span(scratch_));
  for (int rank = 0; rank < group_->size(); ++rank) {
    if (rank != group_->rank()) group_->send(rank, Group::kGradients, bytes);
  }
  std::copy_n(scratch_.data(), mine.count, to + mine.begin);
  for (int rank = 0; rank < group_->size(); ++rank) {
    if (rank == group_->rank()) continue;
    std::vector<std::byte>& sum = received_[static_cast<std::size_t>(rank)];
    group_->receive(rank, Group::kGradients, sum);
    const Slice slice = slice_of(rank, elements);
    if (sum.size() != slice.count * sizeof(float)) {
      fail(ErrorKind::peer, "process {} sent {} bytes of gradients, expected {}: the processes run different networks", rank,
           sum.size(), slice.count * sizeof(float));
    }
    std::memcpy(to + slice.begin, sum.data(), sum.size());
  }
}

}  // namespace millrace

#include "local_communicator.h"

#include "millrace/error.h"

namespace millrace {

LocalCommunicator::LocalCommunicator(std::span<Device* const> devices) {
  for (std::size_t r = 0; r < devices.size(); ++r) {
    streams_.push_back(devices[r]->make_stream(fmt::format("allreduce[{}]", r)));
  }
}

void LocalCommunicator::all_reduce(std::span<const Ref<GradientBucket>> buckets) {
  GradientBucket& first = *buckets[0];
  std::vector<const float*> sources;
  for (const Ref<GradientBucket>& bucket : buckets) {
    if (bucket->elements != first.elements) {
      fail(ErrorKind::device,
           "bucket {} has {} elements on replica {} and {} on replica 0: replicas of one run must share a layout", first.bucket,
           bucket->elements, bucket->replica, first.elements);
    }
    sources.push_back(bucket->data);
    streams_[0]->wait(bucket->ready);
  }
  streams_[0]->sum(first.data, sources, first.elements);
  const Ref<Event> summed = streams_[0]->record();
  for (std::size_t r = 1; r < buckets.size(); ++r) {
    streams_[r]->wait(summed);
    streams_[r]->copy(buckets[r]->data, first.data, first.elements);
    buckets[r]->ready = streams_[r]->record();
    streams_[0]->wait(buckets[r]->ready);
  }
  first.ready = streams_[0]->record();
}

}  // namespace millrace

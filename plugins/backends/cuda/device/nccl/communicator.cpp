#include "communicator.h"

#include <pthread.h>

#include <algorithm>

#include "millrace/error.h"

namespace millrace::cuda {
namespace {

using Clock = NcclWatch::Time::clock;

std::vector<NcclRank> ranks_of(const std::vector<std::unique_ptr<NcclLane>>& lanes) {
  std::vector<NcclRank> ranks;
  for (const auto& lane : lanes) ranks.push_back(lane->rank());
  return ranks;
}

std::vector<std::string> names_of(const std::vector<std::unique_ptr<NcclLane>>& lanes) {
  std::vector<std::string> names;
  for (const auto& lane : lanes) names.push_back(lane->rank().name);
  return names;
}

bool is_there(const Ref<Event>& event) { return !event || event->complete(); }

}  // namespace

NcclCommunicator::NcclCommunicator(const NcclApi& api, std::vector<std::unique_ptr<NcclLane>> lanes, const NcclWorld& world,
                                   const NcclOptions& options)
    : options_(options),
      world_(world),
      lanes_(std::move(lanes)),
      group_(api, world_, ranks_of(lanes_), options.connect),
      watch_(names_of(lanes_), options.limits),
      under_way_(lanes_.size()),
      thread_([this] { watch(); }) {}

NcclCommunicator::~NcclCommunicator() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
  if (!drain()) group_.give_up();
}

void NcclCommunicator::check() {
  const std::lock_guard lock(mutex_);
  if (!watch_.failure()) return;
  if (const auto text = lost()) throw Error(ErrorKind::peer, *text);  // the cause of a present or coming NCCL failure
  fail(ErrorKind::device, "NCCL: {}", *watch_.failure());
}

void NcclCommunicator::all_reduce(std::span<const Ref<GradientBucket>> buckets) {
  check();
  const GradientBucket& first = *buckets[0];
  for (const Ref<GradientBucket>& bucket : buckets) {
    if (bucket->elements == first.elements) continue;
    fail(ErrorKind::device,
         "bucket {} has {} elements on replica {} and {} on replica 0: replicas of one run must share a layout", first.bucket,
         bucket->elements, bucket->replica, first.elements);
  }
  try {
    submit(buckets);
  } catch (...) {
    // Some devices may be inside a sum that others never joined.
    end(fmt::format("bucket {} of step {}: {}", first.bucket, first.step, current_error().message()));
    check();
  }
}

void NcclCommunicator::submit(std::span<const Ref<GradientBucket>> buckets) {
  const bool rounds = options_.wire == NcclWire::bf16;
  const std::size_t elements = buckets[0]->elements;
  std::vector<void*> data;
  std::vector<cudaStream_t> streams;
  std::vector<Sum> sums(lanes_.size());
  for (std::size_t r = 0; r < lanes_.size(); ++r) {
    lanes_[r]->wait(buckets[r]->ready);
    // A separate mark: one in a recording is reset by each launch and means nothing for this step once the next is submitted.
    if (buckets[r]->ready) sums[r].ready = lanes_[r]->record();
    data.push_back(rounds ? lanes_[r]->round(buckets[r]->data, elements) : buckets[r]->data);
    streams.push_back(lanes_[r]->stream());
  }
  group_.all_reduce(data, elements, rounds ? ncclBfloat16 : ncclFloat32, streams);
  for (std::size_t r = 0; r < lanes_.size(); ++r) {
    if (rounds) lanes_[r]->widen(buckets[r]->data, elements);
    buckets[r]->ready = sums[r].done = lanes_[r]->record();
  }
  {
    const std::lock_guard lock(mutex_);
    if (watch_.failure()) return;  // the caller's next call reports it
    watch_.submitted(buckets[0]->step, buckets[0]->bucket);
    for (std::size_t r = 0; r < lanes_.size(); ++r) under_way_[r].push_back(std::move(sums[r]));
  }
  changed_.notify_all();
}

void NcclCommunicator::observe() {
  const auto now = Clock::now();
  for (std::size_t r = 0; r < under_way_.size(); ++r) {
    std::deque<Sum>& sums = under_way_[r];
    for (; !sums.empty() && is_there(sums.front().done); sums.pop_front()) watch_.finished(r, now);
    if (!sums.empty() && is_there(sums.front().ready)) watch_.arrived(r, now);
  }
}

void NcclCommunicator::watch() {
  pthread_setname_np(pthread_self(), "nccl watch");
  std::unique_lock lock(mutex_);
  while (!watch_.failure()) {
    changed_.wait(lock, [this] { return stopping_ || !watch_.idle(); });
    if (stopping_) return;
    observe();
    if (const auto text = lost()) {
      watch_.fail(*text);
    } else if (const auto overdue = watch_.overdue(Clock::now())) {
      watch_.fail(*overdue);
    } else if (const auto trouble = group_.trouble()) {
      watch_.fail(trouble->rank, trouble->text);
    } else {
      changed_.wait_for(lock, options_.look, [this] { return stopping_ || watch_.failure(); });
    }
  }
  lock.unlock();
  group_.give_up();
}

// The events of submitted work complete anyway, normally or through the abort.
void NcclCommunicator::end(const std::string& reason) {
  {
    const std::lock_guard lock(mutex_);
    watch_.fail(reason);
  }
  changed_.notify_all();
  group_.give_up();
}

bool NcclCommunicator::drain() {
  const auto begin = Clock::now();
  const std::lock_guard lock(mutex_);
  while (true) {
    observe();
    if (watch_.idle()) return !watch_.failure();
    if (watch_.failure() || Clock::now() - begin > options_.end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

}  // namespace millrace::cuda

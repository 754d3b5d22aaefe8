#include "training_stages.h"

namespace millrace::stress {

void Forward::describe(StageDescription<Params>& d) {
  d.name("forward").input(payload::kBatch).output(payload::kGradientBucket).per_replica().stepwise();
  d.params.add("buckets", &Params::buckets);
  d.params.add("replicas", &Params::replicas);
  d.params.add("device", &Params::device);
  d.params.add("fails_at", &Params::fails_at);
}

Forward::~Forward() {
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
  }
  changed_.notify_all();
  if (device_.joinable()) device_.join();
}

void Forward::process(int, Packet packet, Output& output) {
  if (!params_.device) return emit_buckets(packet, output);
  const std::lock_guard lock(mutex_);
  if (!device_.joinable()) device_ = std::thread([this] { device_loop(); });
  work_.push_back({std::move(packet), &output, output.hold()});
  changed_.notify_all();
}

void Forward::device_loop() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return closing_ || !work_.empty(); });
    if (work_.empty()) return;
    {
      const Work work = std::move(work_.front());
      work_.pop_front();
      lock.unlock();
      if (static_cast<std::int64_t>(work.packet.sequence) == params_.fails_at) {
        work.output->fail(Error(ErrorKind::device, "planted on the device's thread"));
      } else {
        emit_buckets(work.packet, *work.output);
      }
    }  // all references are released outside the lock; the Hold before the packet, as in a careless stage
    lock.lock();
  }
}

void Forward::emit_buckets(const Packet& packet, Output& output) const {
  for (int bucket = 0; bucket < static_cast<int>(params_.buckets); ++bucket) {
    const Ref<CountedBucket> made = make_ref<CountedBucket>();
    made->token = Ref<StepToken>(static_cast<StepToken*>(packet.token.get()));
    made->step = packet.sequence;
    made->replica = replica_;
    made->bucket = bucket;
    Packet sent;
    sent.payload = made;
    sent.sequence = packet.sequence;
    sent.replica = replica_;
    output.emit(0, std::move(sent));
  }
}

void Forward::stop() noexcept {
  std::deque<Work> dropped;
  const std::lock_guard lock(mutex_);
  dropped.swap(work_);
}

void Join::describe(StageDescription<Params>& d) {
  d.name("join").input(payload::kGradientBucket).output(payload::kGradientBucket).serial();
  d.params.add("replicas", &Params::replicas);
}

void Join::process(int, Packet packet, Output& output) {
  const auto key = std::pair(packet.sequence, static_cast<const GradientBucket&>(*packet.payload).bucket);
  std::vector<Packet>& here = waiting_[key];
  here.push_back(std::move(packet));
  if (here.size() < static_cast<std::size_t>(params_.replicas)) return;
  std::vector<Packet> complete = std::move(here);
  waiting_.erase(key);
  for (Packet& each : complete) output.emit(0, std::move(each));
}

void Update::describe(StageDescription<Params>& d) { d.name("update").input(payload::kGradientBucket).per_replica(); }

}  // namespace millrace::stress

// A miniature training step with the structure of the real one: per-replica steps on separate device threads, a join over
// replicas, per-replica updates. Only the waiting between them matters, not the values.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "millrace/batch.h"
#include "millrace/plugin.h"

namespace millrace::stress {

inline std::atomic<int> live_buckets{0};  // to detect leaks without a sanitizer

class CountedBucket : public GradientBucket {
 public:
  CountedBucket() { ++live_buckets; }
  ~CountedBucket() override { --live_buckets; }
};

// "forward": Batch -> GradientBucket, emitted from process() or, if set, from its own thread, like a device.
class Forward : public Stage {
 public:
  struct Params {
    std::int64_t buckets = 2, replicas = 1;
    bool device = false;
    std::int64_t fails_at = -1;  // on the device's thread, at this step
  };
  static void describe(StageDescription<Params>& d);
  Forward(const Params& params, const StepContext& context) : params_(params), replica_(context.replica) {}
  ~Forward() override;
  void process(int port, Packet packet, Output& output) override;
  void stop() noexcept override;

 private:
  struct Work {
    Packet packet;
    Output* output;
    Output::Hold hold;
  };
  void device_loop();
  void emit_buckets(const Packet& packet, Output& output) const;

  Params params_;
  int replica_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Work> work_;
  bool closing_ = false;
  std::thread device_;
};

// "join": waits for a bucket from every replica, then sends each replica its own.
class Join : public Stage {
 public:
  struct Params {
    std::int64_t replicas = 1;
  };
  static void describe(StageDescription<Params>& d);
  Join(const Params& params, const StageSite&) : params_(params) {}
  void process(int port, Packet packet, Output& output) override;
  void stop() noexcept override { waiting_.clear(); }

 private:
  Params params_;
  std::map<std::pair<std::uint64_t, int>, std::vector<Packet>> waiting_;  // by step and bucket
};

class Update : public Stage {
 public:
  struct Params {};
  static void describe(StageDescription<Params>& d);
  Update(const Params&, const StageSite&) {}
  void process(int, Packet, Output&) override { ++updates; }
  std::atomic<std::uint64_t> updates{0};
};

}  // namespace millrace::stress

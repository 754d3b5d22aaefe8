// Common parts of the graph's tests: a line of stages with synthetic samples.
#pragma once

#include <condition_variable>
#include <mutex>
#include <utility>

#include "testkit/graph_fixture.h"
#include "testkit/stages.h"

namespace millrace::graph_test {

using testkit::BatchLog;
using testkit::CountingBatcher;
using testkit::CountingSource;
using testkit::Jitter;
using testkit::Paint;
using testkit::table;
using testkit::TestGraph;
using testkit::Turnstile;

inline Value number(std::int64_t value) { return Value(value); }
inline Value text(const char* value) { return Value(std::string(value)); }

inline Value shuffled(std::int64_t size) {
  return table({{"size", number(size)}, {"sampling", table({{"shuffle", text("every-epoch")}})}});
}

// read -> paint -> jitter -> batch -> log
struct Line {
  explicit Line(const Value& source, const Value& batch, std::uint64_t seed = 1) : test(seed) {
    test.add<CountingSource>("read", source);
    test.add<Paint>("paint");
    test.add<Jitter>("jitter");
    test.add<CountingBatcher>("batch", batch);
    log = &test.add<BatchLog>("log");
  }
  TestGraph test;
  BatchLog* log;
};

// A step's token that any thread may keep.
class KeptToken {
 public:
  void keep(const Ref<Payload>& token) {
    const std::lock_guard lock(mutex_);
    token_ = token;
    changed_.notify_all();
  }
  void wait_until_kept() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return static_cast<bool>(token_); });
  }
  // REQUIRES: one is kept.
  void let_go() {
    Ref<Payload> token;  // released after the lock
    const std::lock_guard lock(mutex_);
    token = std::move(token_);
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  Ref<Payload> token_;
};

}  // namespace millrace::graph_test

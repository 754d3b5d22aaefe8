// What the tests of the graph stand on: a line of stages with synthetic samples.
#pragma once

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

}  // namespace millrace::graph_test

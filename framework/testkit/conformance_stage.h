// What checks of stages share: a stage that can be made, threads that are not in step, and what is left of a sample.
#pragma once

#include <functional>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "testkit/conformance.h"
#include "testkit/synthetic.h"

namespace millrace::conformance {

inline constexpr unsigned kThreads = 4;

// A stage type with a table that it accepts and a context to be made in.
class Workable {
 public:
  Workable(const Registry& registry, const std::string& name);
  // Says in the report why not.
  bool is_workable(Report& report) const;
  bool is_a(StageType::Role role, Report& report) const;  // and workable

  const StageType& type() const { return type_; }
  const Value& table() const { return *table_; }
  const StepContext& context() const { return bench_.context(); }
  std::string_view input() const;  // payload of the first port; "" without one
  testkit::Harness harness() const { return testkit::Harness(type_, *table_, context()); }

 private:
  const StageType& type_;
  Bench bench_;
  std::string why_;
  std::optional<Value> table_;
};

// Runs `work(thread)` on all threads at once. What they throw is a complaint.
void on_threads(const std::function<void(unsigned)>& work, Report& report);

// A short random pause, other ones for each thread.
class Jitter {
 public:
  explicit Jitter(unsigned thread) : generator_(thread + 1) {}
  std::uint32_t below(std::uint32_t bound) { return static_cast<std::uint32_t>(generator_()) % bound; }
  void pause();

 private:
  std::mt19937 generator_;
};

// The chunks of a batch, of 1 to 3 samples, dealt out to threads that are not in step.
void feed_in_disorder(testkit::Harness& harness, const Ref<Batch>& batch, Report& report);

// What is left of a sample when a stage is through with it.
struct Outcome {
  std::vector<std::uint8_t> pixels;
  ImageShape shape;
  std::vector<std::uint8_t> seen;  // by the network, where the record is still to be executed
  std::uint64_t hash = 0;
  SourceMap source;
  std::string fault;
  std::int32_t label = -1;
  std::vector<float> numbers;
  bool operator==(const Outcome&) const = default;
};
Outcome outcome(const Sample& sample);

// What a source gives.
struct Read {
  std::string url;
  std::vector<std::uint8_t> bytes;
  std::int32_t label = -1;
  bool operator==(const Read&) const = default;
};
Read read_one(Source& source, std::uint64_t index);

std::span<const Check> sample_checks();  // of what stages and sources do with samples

}  // namespace millrace::conformance

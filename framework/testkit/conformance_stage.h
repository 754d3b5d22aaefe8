// Common parts of stage checks: a stage that can be made, unsynchronised threads, and the outcome of a sample.
#pragma once

#include <functional>
#include <initializer_list>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "testkit/conformance.h"
#include "testkit/synthetic.h"

namespace millrace::conformance {

inline constexpr unsigned kThreads = 4;

// A stage type with a valid table and context.
class Workable {
 public:
  // From an example of the type; null: from a guessed table. If none is accepted, why_not() has the reason.
  Workable(const Registry& registry, const StageType& type, const StageExample* example);
  const std::string& why_not() const { return why_; }

  const StageType& type() const { return type_; }
  ImageShape image() const { return bench_.context().image; }  // shape of the arriving images
  const Value& table() const { return *table_; }
  const StepContext& context() const { return bench_.context(); }
  std::string_view input() const;  // payload of the first port; "" without one
  testkit::Harness harness() const { return testkit::Harness(type_, *table_, context()); }

 private:
  const StageType& type_;
  Bench bench_;
  std::optional<ExampleFolder> folder_;
  std::string why_;
  std::optional<Value> table_;
};

// Runs the check on each example of a stage with one of these roles; without roles, on every stage. An example that cannot be
// made is a complaint. A stage without examples is made from a guessed table; if none is accepted, the check does not apply.
using ExampleCheck = void (*)(const Workable& stage, Report& report);
void for_each_example(const Registry& registry, const std::string& name, std::initializer_list<StageType::Role> roles,
                      ExampleCheck check, Report& report);

// As a Check::run.
template <ExampleCheck kCheck, StageType::Role... kRoles>
void of_each_example(const Registry& registry, const std::string& name, Report& report) {
  for_each_example(registry, name, {kRoles...}, kCheck, report);
}

// Runs `work(thread)` on all threads at once. Exceptions become complaints.
void on_threads(const std::function<void(unsigned)>& work, Report& report);

// A short random pause, different for each thread.
class Jitter {
 public:
  explicit Jitter(unsigned thread) : generator_(thread + 1) {}
  std::uint32_t below(std::uint32_t bound) { return static_cast<std::uint32_t>(generator_()) % bound; }
  void pause();

 private:
  std::mt19937 generator_;
};

// Feeds the chunks of a batch, of 1 to 3 samples, from unsynchronised threads.
void feed_in_disorder(testkit::Harness& harness, const Ref<Batch>& batch, Report& report);

// A sample after a stage.
struct Outcome {
  std::vector<std::uint8_t> pixels;
  ImageShape shape;
  std::vector<std::uint8_t> seen;  // by the network, if the record is still pending
  std::uint64_t hash = 0;
  SourceMap source;
  std::string fault;
  std::int32_t label = -1;
  std::vector<float> numbers;
  bool operator==(const Outcome&) const = default;
};
Outcome outcome(const Sample& sample);

// A source's output.
struct Read {
  std::string url;
  bool is_encoded = true;
  std::vector<std::uint8_t> bytes;  // encoded, or the source's image
  std::int32_t label = -1;
  bool operator==(const Read&) const = default;
};
Read read_one(Source& source, std::uint64_t index);

std::span<const Check> sample_checks();  // for stages and sources of samples

}  // namespace millrace::conformance

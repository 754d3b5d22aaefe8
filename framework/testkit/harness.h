// A single stage between fake ports: feed packets, and inspect the output. No graph, no threads.
//
//   testkit::Harness harness(StageTypeAccess::make<Invert>(), testkit::table({{"chance", Value(1.0)}}));
//   Ref<Batch> batch = testkit::make_batch(4, {8, 8, 3});
//   harness.feed(testkit::whole(batch));
//   std::vector<Packet> out = harness.take();
//
// Errors are the stage's own, without the context that a graph adds.
#pragma once

#include <filesystem>
#include <initializer_list>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "millrace/batch.h"
#include "millrace/plugin.h"
#include "millrace/stage.h"
#include "millrace/util/step_result.h"

namespace millrace::testkit {

// A run that records everything. Thread-safe.
class RecordedRun : public RunServices {
 public:
  struct Report {
    std::string graph;
    std::uint64_t epoch = 0, step = 0, stream_hash = 0;
    double samples = 0;
    StepSums sums;
    std::map<std::string, StepSums> auxiliary = {};
  };
  struct BadSample {
    std::string url, stage, cause, action;
    SampleKey key;
  };

  void report(const StepReport& report) override;
  void scalar(std::string_view graph, std::uint64_t step, std::string_view name, double value) override;
  void figure(std::string_view graph, const Figure& figure) override;
  void promise_scalar(std::string_view, std::uint64_t, std::string_view) override {}
  void not_finite(std::string_view graph, std::uint64_t step, std::string_view what) override;
  void bad_sample(std::string_view graph, const Sample& sample, std::string_view action) override;
  std::string output_folder() const override { return folder_.string(); }
  void warn(std::string_view message) override;

  void set_folder(std::filesystem::path folder) { folder_ = std::move(folder); }
  std::vector<Report> reports() const;
  std::map<std::string, double> scalars(std::uint64_t step) const;  // by name
  std::vector<Figure> figures() const;                              // the passes', in order of arrival
  std::vector<BadSample> bad_samples() const;
  std::vector<std::string> warnings() const;
  std::map<std::uint64_t, std::string> not_finite() const;  // by step

 private:
  mutable std::mutex mutex_;
  std::filesystem::path folder_;
  std::vector<Report> reports_;
  std::map<std::uint64_t, std::map<std::string, double>> scalars_;
  std::vector<Figure> figures_;
  std::vector<BadSample> bad_samples_;
  std::vector<std::string> warnings_;
  std::map<std::uint64_t, std::string> not_finite_;
};

// Collects output by port. Thread-safe.
class CollectingOutput : public Output {
 public:
  void emit(int port, Packet packet) override;
  void begin_hold() override;
  void end_hold() override;
  void fail(Error error) override;

  std::vector<Packet> take(int port = 0);  // removes and returns the packets of this port, in order
  int holds() const;
  std::vector<Error> errors() const;
  void wait_until_free();  // until no Hold is left

 private:
  mutable std::mutex mutex_;
  std::map<int, std::vector<Packet>> packets_;
  int holds_ = 0;
  std::vector<Error> errors_;
};

class Harness {
 public:
  // Makes the stage as a pipeline would. Fills in missing context: graph "test", the stage's own name, a RecordedRun. Throws
  // Error(usage) for mistakes in the table. Does not call open().
  explicit Harness(const StageType& type, const Value& table = {}, StepContext context = {});
  explicit Harness(std::shared_ptr<Stage> stage);
  ~Harness();

  template <class T>
  T& as() {
    return dynamic_cast<T&>(*stage_);
  }
  Stage& stage() { return *stage_; }
  const std::shared_ptr<Stage>& shared() const { return stage_; }
  CollectingOutput& output() { return output_; }
  RecordedRun& run() { return run_; }

  void feed(Packet packet, int port = 0) { stage_->process(port, std::move(packet), output_); }
  std::vector<Packet> take(int port = 0) { return output_.take(port); }

 private:
  RecordedRun run_;
  StepContext context_;
  CollectingOutput output_;
  std::shared_ptr<Stage> stage_;
};

// A parameter table: table({{"size", Value(std::int64_t{4})}, {"last", Value(std::string("keep"))}}).
Value table(std::initializer_list<std::pair<const char*, Value>> members);

// A batch with its own memory, deleted with its last Ref. All slots are in use and missing: keys (epoch 0, position and index =
// slot), labels -1, weights 1, pixels 0. `window`: defaults to the image.
Ref<Batch> make_batch(std::uint32_t capacity, ImageShape image, ImageShape window = {});

// Packets over a batch.
Packet chunk(const Ref<Batch>& batch, std::uint32_t begin, std::uint32_t count);
Packet whole(const Ref<Batch>& batch);
Packet packet(Ref<Payload> payload, std::uint64_t sequence = 0);

}  // namespace millrace::testkit

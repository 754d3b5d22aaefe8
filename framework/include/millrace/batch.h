// What travels after `batch`: batches of samples, the step's gradients and results, and what a network made of a batch.
//
// A sink of predictions asks for outputs of layers in its request() and writes in order of the source, on a thread that may
// block:
//
//   class CountCats : public millrace::Stage {
//    public:
//     struct Params {};
//     static void describe(millrace::StageDescription<Params>& d) {
//       d.name("count_cats").text("Counts cats.").input(millrace::payload::kPredictions);
//     }
//     CountCats(const Params&, const millrace::StageSite&) {}
//     void process(int, millrace::Packet packet, millrace::Output& output) override { line_.add(std::move(packet), output); }
//     void stop() noexcept override { line_.stop(); }
//    private:
//     void write(const millrace::Predictions& share) { ... share.outputs[0].row(sample) ... }
//     millrace::PredictionLine line_{[this](const millrace::Predictions& share) { write(share); }};  // the last member
//   };
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "millrace/detail/compile_request.h"
#include "millrace/detail/packet.h"
#include "millrace/sample.h"
#include "millrace/stage.h"

namespace millrace {

class Loss;

// One global step's samples. Owned by the graph, which makes a fixed number of them ("credits"); a batch whose last Ref is gone
// returns to the source. Filled slot by slot by many threads, read-only once `batch` has emitted it.
class Batch : public Payload {
 public:
  std::uint64_t epoch = 0;
  std::uint64_t step = 0;   // global, from 0; Packet::sequence of its chunks
  std::uint64_t pass = 0;   // how often the graph has begun again from a step that it had done, as validation does
  std::uint32_t count = 0;  // slots in use, <= capacity; less only in an epoch's last batch
  // Each process has a part of the global batch: this one's slots are first_slot ... first_slot + count - 1 of global_count. In a
  // run of one process: 0 and count.
  std::uint32_t first_slot = 0;
  std::uint32_t global_count = 0;
  double weight = 0;  // sum of weights[0 ... count); valid when complete
  std::uint64_t stream_hash =
      0;  // sum over the global batch's samples; valid when a stepwise stage sees it, before that over its own

  ImageShape image;                      // of every slot's pixels; is_plain()
  ImageShape window;                     // what the network sees after ingest
  std::span<Sample> samples;             // capacity
  const std::uint8_t* pixels = nullptr;  // (capacity, H, W, C), pinned where the device wants it; see change_pixels()
  // The number in CompileOptions::resident_sets of the set that the images belong to, each by its sample's index: a device that
  // keeps the set reads `pixels` only of those that it does not have yet. -1: none. Slots without weight are black.
  std::int32_t resident_set = -1;
  TargetSpec target;
  std::uint8_t* targets = nullptr;  // (capacity, target.shape(image)); null without targets. Pending records hold for them as
                                    // well, by target_record()
  std::uint32_t numbers_per_sample = 0;
  // (capacity, numbers_per_sample). Where row_offsets is not null, a sample has any number of rows: (row_offsets[count],
  // numbers_per_sample), of which those of slot n begin at row row_offsets[n]. Valid when complete; a slot without weight has
  // none.
  float* numbers = nullptr;
  std::uint32_t* row_offsets = nullptr;   // (capacity + 1)
  AugmentationRecord* records = nullptr;  // (capacity)
  // (capacity): where `pixels` come from, before `records` are executed; see seen_source(). Null: not known, as where a stage
  // after `batch` changed pixels. Only for the host.
  SourceMap* source_maps = nullptr;
  std::int32_t* labels = nullptr;         // (capacity)
  std::int32_t* second_labels = nullptr;  // (capacity) of mixed images, and the share of `labels` in them, 0 ... 1 (1: it is not
  float* shares = nullptr;                // mixed); both null where no stage mixes images
  float* weights = nullptr;               // (capacity): 1, or 0 for a skipped sample and for unused slots

  std::atomic<std::uint32_t> missing{0};    // slots not yet arrived; `batch` counts down
  std::atomic<std::uint32_t> in_flight{0};  // device reads under way; must be 0 before the batch is filled again

  // For a stage after `batch` that changes pixels in their slots: devices read them from then on, and where they come from is
  // not known any more, in any slot.
  std::uint8_t* change_pixels() {
    source_maps = nullptr;
    return change_colours();
  }
  // The same for changes after which every pixel still shows the same place: source_maps stay.
  std::uint8_t* change_colours() {
    resident_set = -1;
    return const_cast<std::uint8_t*>(pixels);  // the batch's own memory
  }

  // Makes `numbers` and `row_offsets` of the samples' rows, when every slot has arrived. REQUIRES: row_offsets.
  void gather_rows();

  std::size_t target_bytes() const { return target.shape(image).bytes(); }  // of one sample
  std::uint32_t capacity() const { return static_cast<std::uint32_t>(samples.size()); }
  std::span<Sample> chunk(const Packet& packet) const { return samples.subspan(packet.begin, packet.count); }

 private:
  std::vector<float> rows_;  // what `numbers` points to where there are row_offsets
};

// As seen_source() of a sample, for a slot of a complete batch; unknown for slots without weight.
SourceMap seen_source(const Batch& batch, std::uint32_t slot);

// Hash of what the network receives of a complete batch: slots in use as their records show them, targets, numbers, labels,
// shares and weights. The same whatever device executes the records; executes them on the host, for comparing and not for speed.
std::uint64_t hash_of_input(const Batch& batch);

// ---- What a training step sends ----

// A point in a stream's work. Thread-safe.
class Event : public Payload {
 public:
  virtual bool complete() const = 0;
  virtual void wait() const = 0;  // blocks the host; not on a worker of the graph
  // Calls `done` once, when complete: at once on this thread, or later on one of the backend's. It is short and must not throw.
  virtual void then(std::function<void()> done) = 0;
};

// What a loss adds up, in the order of LossInfo::sums, then its class matrix. Empty: nothing was measured.
struct StepSums {
  std::vector<double> values;

  double at(std::size_t index) const { return index < values.size() ? values[index] : 0; }
  double loss() const { return at(0); }  // weighted
  double weight() const { return at(1); }
  void add(const StepSums& others);
};

// One per graph, circulating: the next step's forward may be submitted when the last Ref to it is gone. Held by the buckets of
// a step, and by the run while it validates or saves.
class StepToken : public Payload {
 public:
  std::uint64_t epoch = 0;
  std::uint64_t step = 0;
};

// A contiguous slice of one replica's gradients: whole parameters, on the device.
class GradientBucket : public Payload {
 public:
  Ref<StepToken> token;
  std::uint64_t step = 0;
  int replica = 0;
  int bucket = 0;
  int buckets = 1;        // in this step; their numbers begin at 0
  float* data = nullptr;  // device memory of the replica
  std::size_t elements = 0;
  Ref<Event> ready;  // what must be complete before `data` holds this stage's result; replaced by each stage that writes
  const float* scale = nullptr;  // a factor of the gradients, in device memory, valid once `ready` is complete. Null means 1;
                                 // a factor of 0 means that the step updates nothing
};

// What a loss measured in one step on one replica: sums, so that replicas and steps can be added up.
class StepResult : public Payload {
 public:
  std::uint64_t epoch = 0;
  std::uint64_t step = 0;
  int replica = 0;
  int replicas = 1;
  std::uint64_t stream_hash = 0;     // of the global batch; replica 0's counts
  Ref<Event> ready;                  // the sums below are written by the device before this
  std::shared_ptr<const Loss> loss;  // what makes figures of the sums
  double samples = 0;                // with weight
  std::vector<StepSums> sums;        // of each piece of the share that was measured
  // Losses that are minimised beside it.
  struct Auxiliary {
    std::string name;            // "aux1.fc2"
    std::vector<StepSums> sums;  // as above
  };
  std::vector<Auxiliary> auxiliary;
};

// One step's result over all replicas; steps may be reported out of order.
struct RunServices::StepReport {
  std::string_view graph;
  std::uint64_t epoch = 0;
  std::uint64_t step = 0;
  std::uint64_t stream_hash = 0;
  double samples = 0;                // with weight
  std::shared_ptr<const Loss> loss;  // what makes figures of the sums
  StepSums sums;
  std::map<std::string, StepSums> auxiliary = {};  // of losses that are minimised beside it, by name
};

// ---- Predictions ----

// The predictions for one replica's share of a batch. A fixed number of them circulate between `forward` and the sinks.
class Predictions : public Payload {
 public:
  struct Sample {
    SampleKey key;
    std::string url, member;  // as in millrace::Sample
    std::int32_t label = -1;  // -1: none
    bool counts = true;       // false: the sample was bad and was skipped; its outputs mean nothing
    SourceMap source;         // from pixels that the network saw to pixels of the source image; may be unknown

    void append_place(std::string& to) const;  // "photos/cat/1.jpg", "shards/3.tar: 00042.jpg"
  };
  struct Values {
    LayerPort port;
    Shape shape;                    // of one sample
    const float* values = nullptr;  // (count, shape...), host memory
    // Set: not the value, but the gradient of a score by it; the number is ScoreGradient::of.
    std::optional<int> score = {};

    std::span<const float> row(std::size_t sample) const {
      const auto elements = static_cast<std::size_t>(shape.elements());
      return {values + sample * elements, elements};
    }
  };

  std::uint64_t epoch = 0;
  std::uint64_t step = 0;
  int replica = 0, replicas = 1;
  // The shares that this replica has sent before, in all passes. Shares in order of (turn, replica) are in order of the source.
  std::uint64_t turn = 0;
  bool last = false;            // of its epoch
  std::uint32_t count = 0;      // samples in use; 0 for a replica without a share
  std::vector<Sample> samples;  // at least `count`, in order of position
  // What CompileRequest::outputs and ::gradients of this graph list: the network's result first.
  std::vector<Values> outputs;
  Ref<Event> ready;  // the values are written by the device before this
  // The batch that holds the samples, from slot `first_slot` on; it is filled again when these predictions are let go of. Null
  // unless a stage of this graph has said CompileRequest::needs_image.
  Ref<Batch> batch;
  std::uint32_t first_slot = 0;

  const Values& result() const { return outputs.front(); }  // of the network
  // The values of a layer's output. REQUIRES: a stage of this graph has asked for it.
  const Values& output(LayerPort port) const;
  const Values& gradient(const ScoreGradient& of) const;  // REQUIRES: as for output()
  // A sample's image as the network saw it, into memory for a batch->window. REQUIRES: batch.
  void copy_image(std::size_t sample, std::uint8_t* to) const;
  // Its target as the output is compared with it, into memory for a batch->target.shape(batch->window). REQUIRES: batch->targets.
  void copy_target(std::size_t sample, std::uint8_t* to) const;
};

// The output of a layer that a user names "layer" or "layer:port". Throws Error(usage) that names `key` and the nearest layer.
// REQUIRES: the site has a network.
LayerPort find_output(const StageSite& site, std::string_view key, std::string_view name);

// Hands predictions to a sink in order of the source, each when its values are there, on a thread of its own, which may block:
// `forward` waits for predictions to come back. After stop() or an error, which ends the run, nothing is handed over.
class PredictionLine {
 public:
  using Write = std::function<void(const Predictions& share)>;

  explicit PredictionLine(Write write);
  ~PredictionLine();  // waits until no call of `write` runs

  void add(Packet packet, Output& output);  // one thread at a time
  void stop() noexcept;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace millrace

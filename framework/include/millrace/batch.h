// Payloads after `batch`: batches of samples, gradients (detail/gradient_bucket.h) and predictions.
//
// A sink of predictions requests outputs of layers in its request() and writes in the source's order, on a thread that may block:
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
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "millrace/detail/compile_request.h"
#include "millrace/detail/gradient_bucket.h"
#include "millrace/detail/packet.h"
#include "millrace/sample.h"
#include "millrace/stage.h"

namespace millrace {

// A batch's images, and the augmentation that devices still have to execute.
struct BatchImages {
  ImageShape image;                       // shape of every slot's pixels; is_plain()
  ImageShape window;                      // the network's input, after `records` are executed
  const std::uint8_t* pixels = nullptr;   // (capacity, H, W, C), pinned if the device requires it; black in slots without weight
  AugmentationRecord* records = nullptr;  // (capacity), pending; for targets too, by target_record()
  // (capacity): where `pixels` come from; host only. Null if unknown, for example after a stage behind `batch` has changed
  // pixels.
  SourceMap* source_maps = nullptr;
  // Index in CompileOptions::resident_sets of the set to which the images belong, each by its sample's index: a device that keeps
  // the set reads only those `pixels` that it does not have yet. -1: none.
  std::int32_t resident_set = -1;

  // For a stage after `batch` that changes pixels: devices read them again, and source_maps is dropped.
  std::uint8_t* change_pixels() {
    source_maps = nullptr;
    return change_colours();
  }
  // For changes that keep every pixel in its place: source_maps stay.
  std::uint8_t* change_colours() {
    resident_set = -1;
    return const_cast<std::uint8_t*>(pixels);  // the batch's own memory
  }
};

// What a loss compares a batch's outputs with.
struct BatchTruth {
  std::int32_t* labels = nullptr;         // (capacity)
  std::int32_t* second_labels = nullptr;  // (capacity), for mixed images, with the share of `labels`, 0 ... 1
  float* shares = nullptr;                // (1: not mixed); both null if no stage mixes images
  float* weights = nullptr;               // (capacity): 1, or 0 for a skipped sample and for unused slots
  TargetSpec target;
  std::uint8_t* targets = nullptr;  // (capacity, target.shape(image)); null without targets
  std::uint32_t numbers_per_sample = 0;
  // (capacity, numbers_per_sample). With row_offsets a sample has any number of rows: (row_offsets[count], numbers_per_sample),
  // and slot n's rows begin at row_offsets[n]. Valid when the batch is complete.
  float* numbers = nullptr;
  std::uint32_t* row_offsets = nullptr;  // (capacity + 1), or null
  std::vector<float> rows;               // storage for `numbers` if there are row_offsets

  // Numbers per sample that a loss can use: rows are for sinks.
  std::uint32_t numbers_for_loss() const { return row_offsets == nullptr ? numbers_per_sample : 0; }
};

// One global step's samples. Owned by the graph, which makes a fixed number of them ("credits"); a batch returns to the source
// when its last Ref is released. Many threads fill it slot by slot; it is read-only once `batch` has emitted it.
class Batch : public Payload, public BatchImages, public BatchTruth {
 public:
  std::uint64_t epoch = 0;
  std::uint64_t step = 0;   // global, from 0; Packet::sequence of its chunks
  std::uint64_t pass = 0;   // how many times the graph has restarted from a step it had already done, as validation does
  std::uint32_t count = 0;  // slots in use, <= capacity; less only in an epoch's last batch
  // This process has slots first_slot ... first_slot + count - 1 of the global batch's global_count; a single process has 0 and
  // count.
  std::uint32_t first_slot = 0, global_count = 0;
  std::span<Sample> samples;  // capacity
  double weight = 0;          // sum of weights[0 ... count); valid when complete
  // Sum over the global batch's samples once a stepwise stage sees it; before that, over this process's samples.
  std::uint64_t stream_hash = 0;

  std::atomic<std::uint32_t> missing{0};    // slots not yet arrived; `batch` decrements it
  std::atomic<std::uint32_t> in_flight{0};  // device reads in progress; must be 0 before the batch is filled again

  std::size_t target_bytes() const { return target.shape(image).bytes(); }  // for one sample
  std::uint32_t capacity() const { return static_cast<std::uint32_t>(samples.size()); }
  std::span<Sample> chunk(const Packet& packet) const { return samples.subspan(packet.begin, packet.count); }
};

// The predictions for one replica's share of a batch. A fixed number of them circulate between `forward` and the sinks.
class Predictions : public Payload {
 public:
  struct Sample {
    SampleKey key;
    std::string url, member;  // as in millrace::Sample
    std::int32_t label = -1;  // -1: none
    bool counts = true;       // false if the sample was bad and was skipped; its outputs are meaningless
    std::string fault = {};   // why it was skipped: "decode_image: not a JPEG or PNG image"
    SourceMap source;         // maps pixels of the network's input to pixels of the source image; may be unknown

    void append_place(std::string& to) const;  // "photos/cat/1.jpg", "shards/3.tar: 00042.jpg"
  };
  struct Values {
    LayerPort port;
    Shape shape;                    // for one sample
    const float* values = nullptr;  // (count, shape...), host memory
    // If set, this is the gradient of a score by the value; the number is ScoreGradient::of.
    std::optional<int> score = {};

    std::span<const float> row(std::size_t sample) const;
  };

  std::uint64_t epoch = 0;
  std::uint64_t step = 0;
  int replica = 0, replicas = 1;
  // Index of this replica's current share, over all passes. The order by (turn, replica) is the source's order.
  std::uint64_t turn = 0;
  bool last = false;            // true for the last share of its epoch
  std::uint32_t count = 0;      // samples in use; 0 for a replica without a share
  std::vector<Sample> samples;  // at least `count`, by position
  // As listed in this graph's CompileRequest::outputs and ::gradients; the network's result comes first.
  std::vector<Values> outputs;
  Ref<Event> ready;  // signals that the device has written the values
  // The batch that holds the samples, from slot `first_slot` on; it is refilled once these predictions are released. Null unless
  // a stage of this graph sets CompileRequest::needs_image.
  Ref<Batch> batch;
  std::uint32_t first_slot = 0;

  const Values& result() const { return outputs.front(); }  // the network's output
  // The values of a layer's output. REQUIRES: a stage of this graph has requested it.
  const Values& output(LayerPort port) const;
  const Values& gradient(const ScoreGradient& of) const;  // REQUIRES: as for output()
  // Copies a sample's image as the network saw it; `to` has room for a batch->window. REQUIRES: batch.
  void copy_image(std::size_t sample, std::uint8_t* to) const;
  // Copies the target as the loss sees it; `to` has room for batch->target.shape(batch->window). REQUIRES: batch->targets.
  void copy_target(std::size_t sample, std::uint8_t* to) const;
};

// Sinks that name files after samples implement this too, so that name collisions are found before the run.
class NamesFilesAfterSamples {
 public:
  using NextSample = std::function<bool(Predictions::Sample& sample)>;
  virtual ~NamesFilesAfterSamples() = default;
  // `next` fills key.index, url and member of each sample of a pass in turn and returns false at the end. Called before open().
  // Throws Error(usage) naming both samples if two would write the same file.
  virtual void check_names(const NextSample& next) const = 0;
};

// Finds the layer's output that a user wrote as "layer" or "layer:port". Throws Error(usage) with `key` and the nearest layer.
// REQUIRES: the site has a network.
LayerPort find_output(const StageSite& site, std::string_view key, std::string_view name);

// Passes predictions to a sink in the source's order, once their values are ready, on its own thread. `write` may block:
// `forward` waits until predictions return. An error ends the run. After an error or stop(), `write` is not called again.
class PredictionLine {
 public:
  using Write = std::function<void(const Predictions& share)>;

  explicit PredictionLine(Write write);
  ~PredictionLine();  // waits for a running call of `write`

  void add(Packet packet, Output& output);  // one thread at a time
  void stop() noexcept;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace millrace

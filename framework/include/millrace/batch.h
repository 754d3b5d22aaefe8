// What travels after `batch`: batches of samples, gradients (detail/gradient_bucket.h), and what a network made of a batch.
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

// Images of a batch, and what devices have still to do to them.
struct BatchImages {
  ImageShape image;                       // of every slot's pixels; is_plain()
  ImageShape window;                      // what the network sees after `records` are executed
  const std::uint8_t* pixels = nullptr;   // (capacity, H, W, C), pinned where the device wants it; black in slots without weight
  AugmentationRecord* records = nullptr;  // (capacity), pending; for targets as well, by target_record()
  // (capacity): where `pixels` come from. Null: not known, as where a stage after `batch` changed pixels. Only for the host.
  SourceMap* source_maps = nullptr;
  // The number in CompileOptions::resident_sets of the set that the images belong to, each by its sample's index: a device that
  // keeps the set reads only those `pixels` that it does not have yet. -1: none.
  std::int32_t resident_set = -1;

  // For a stage after `batch` that changes pixels: devices read them again, and no slot knows its source any more.
  std::uint8_t* change_pixels() {
    source_maps = nullptr;
    return change_colours();
  }
  // The same for changes after which every pixel still shows the same place: source_maps stay.
  std::uint8_t* change_colours() {
    resident_set = -1;
    return const_cast<std::uint8_t*>(pixels);  // the batch's own memory
  }
};

// What a loss compares the outputs for a batch with.
struct BatchTruth {
  std::int32_t* labels = nullptr;         // (capacity)
  std::int32_t* second_labels = nullptr;  // (capacity), of mixed images, and the share of `labels` in them, 0 ... 1 (1: it is not
  float* shares = nullptr;                // mixed); both null where no stage mixes images
  float* weights = nullptr;               // (capacity): 1, or 0 for a skipped sample and for unused slots
  TargetSpec target;
  std::uint8_t* targets = nullptr;  // (capacity, target.shape(image)); null without targets
  std::uint32_t numbers_per_sample = 0;
  // (capacity, numbers_per_sample). With row_offsets a sample has any number of rows: (row_offsets[count], numbers_per_sample),
  // of which those of slot n begin at row row_offsets[n]. Valid when the batch is complete.
  float* numbers = nullptr;
  std::uint32_t* row_offsets = nullptr;  // (capacity + 1), or null
  std::vector<float> rows;               // what `numbers` points to where there are row_offsets

  // How many of each sample a loss can take: rows are for sinks.
  std::uint32_t numbers_for_loss() const { return row_offsets == nullptr ? numbers_per_sample : 0; }
};

// One global step's samples. Owned by the graph, which makes a fixed number of them ("credits"); a batch whose last Ref is gone
// returns to the source. Filled slot by slot by many threads, read-only once `batch` has emitted it.
class Batch : public Payload, public BatchImages, public BatchTruth {
 public:
  std::uint64_t epoch = 0;
  std::uint64_t step = 0;   // global, from 0; Packet::sequence of its chunks
  std::uint64_t pass = 0;   // how often the graph has begun again from a step that it had done, as validation does
  std::uint32_t count = 0;  // slots in use, <= capacity; less only in an epoch's last batch
  // This process has slots first_slot ... first_slot + count - 1 of the global batch's global_count; alone: 0 and count.
  std::uint32_t first_slot = 0, global_count = 0;
  std::span<Sample> samples;  // capacity
  double weight = 0;          // sum of weights[0 ... count); valid when complete
  // Sum over the global batch's samples; valid when a stepwise stage sees it, before that over its own.
  std::uint64_t stream_hash = 0;

  std::atomic<std::uint32_t> missing{0};    // slots not yet arrived; `batch` counts down
  std::atomic<std::uint32_t> in_flight{0};  // device reads under way; must be 0 before the batch is filled again

  std::size_t target_bytes() const { return target.shape(image).bytes(); }  // of one sample
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
    bool counts = true;       // false: the sample was bad and was skipped; its outputs mean nothing
    std::string fault = {};   // why, where it was: "decode_image: not a JPEG or PNG image"
    SourceMap source;         // from pixels that the network saw to pixels of the source image; may be unknown

    void append_place(std::string& to) const;  // "photos/cat/1.jpg", "shards/3.tar: 00042.jpg"
  };
  struct Values {
    LayerPort port;
    Shape shape;                    // of one sample
    const float* values = nullptr;  // (count, shape...), host memory
    // Set: not the value, but the gradient of a score by it; the number is ScoreGradient::of.
    std::optional<int> score = {};

    std::span<const float> row(std::size_t sample) const;
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

// A sink that names files after samples implements this too, so that two samples with one name are found before the run.
class NamesFilesAfterSamples {
 public:
  using NextSample = std::function<bool(Predictions::Sample& sample)>;
  virtual ~NamesFilesAfterSamples() = default;
  // `next` fills key.index, url and member of each sample of a pass in turn; false: there are no more. Called before open().
  // Throws Error(usage) that names both where two samples would be one file.
  virtual void check_names(const NextSample& next) const = 0;
};

// The output of a layer that a user names "layer" or "layer:port". Throws Error(usage) that names `key` and the nearest layer.
// REQUIRES: the site has a network.
LayerPort find_output(const StageSite& site, std::string_view key, std::string_view name);

// Hands predictions to a sink in order of the source, each when its values are there, on a thread of its own. That may block:
// `forward` waits for predictions to come back. An error ends the run. After it, and after stop(), nothing is handed over.
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

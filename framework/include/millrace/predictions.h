// What a network made of a batch, on its way out of the pipeline: `forward` sends it, sinks such as write_classes take it.
//
// A sink of your own asks for outputs of layers in its request() and writes in order of the source, on a thread that may block:
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

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "millrace/backend/backend.h"
#include "millrace/detail/packet.h"
#include "millrace/sample.h"
#include "millrace/stage.h"

namespace millrace {

// The predictions for one replica's share of a batch. It holds no batch unless a stage asks for images: a slow sink holds up
// predictions, not pixels. A fixed number of them circulate between `forward` and the sinks; their strings and memory are reused.
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
  // The batch that holds the samples, from slot `first_slot` on. Null unless a stage of this graph has said
  // CompileRequest::needs_image: the batch is filled again only when these predictions are let go of.
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

// Hands predictions to a sink in order of the source, each when its values are there, on a thread of its own. That thread may
// block: memory stays bounded, as `forward` waits for predictions to come back. After an error, which ends the run, and after
// stop() nothing is handed over any more.
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

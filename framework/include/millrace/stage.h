// Stages: the nodes of a pipeline. Four shapes cover what a training graph needs:
//
//   Source            samples come from here (source.h); the framework does order, shuffling, credits, chunks and retries
//   SampleTransform   changes one sample at a time (decode, resize, augment); the framework does the rest
//   Transform, Sink   take whole payloads (Batch, GradientBucket, StepResult, or one of your own)
//   Stage             the general form that the others are made of: packets in, packets out
//
// A smallest stage, complete with its plugin:
//
//   class Invert : public millrace::SampleTransform {
//    public:
//     struct Params { double chance = 0.5; };
//     static void describe(millrace::StageDescription<Params>& d) {
//       d.name("invert").text("Inverts the colours of some images.");
//       d.params.add("chance", &Params::chance).range(0, 1).text("chance for each image");
//     }
//     Invert(const Params& params, const millrace::StageSite&) : params_(params) {}
//     bool is_random() const override { return true; }
//     void process(millrace::Sample& sample, millrace::Draw& draw) override {
//       if (!draw.chance(params_.chance)) return;
//       const millrace::Image& image = sample.change_colours();
//       for (std::size_t i = 0; i < image.shape.bytes(); ++i) image.data[i] = static_cast<std::uint8_t>(255 - image.data[i]);
//     }
//    private:
//     Params params_;
//   };
//   MILLRACE_PLUGIN("invert", "1.0", "Inverts colours.") { registry.add_stage<Invert>(); }
//
// Life of a stage: the constructor checks everything and is cheap; open() may touch data; process() is called for each packet;
// stop() ends it, also twice or without open(). All but stop() may throw Error; the framework adds pipeline, stage and sample. No
// call may block a worker for long: wait in Source::read(), which has threads of its own, or after Output::hold().
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "millrace/detail/figure.h"
#include "millrace/detail/packet.h"
#include "millrace/detail/split.h"
#include "millrace/detail/stage_traits.h"
#include "millrace/detail/step_services.h"
#include "millrace/error.h"
#include "millrace/params.h"
#include "millrace/sample.h"

namespace millrace {

// Where a stage stands, and the run. A constructor may take a StageSite; after a source also a DataContext, after `batch` also a
// StepContext. One that takes more than is known there does not compile, or is refused before the run. Copies may be kept: what
// their pointers lead to lives as long as the stage.
struct StageSite {
  std::string graph;                   // "train"
  std::string name;                    // "augment": the table's name, not the stage's type
  Position at;                         // of its table in the pipeline's file, or of its name in `flow`; none: there is no file
  std::uint64_t seed = 0;              // of the run
  const Network* network = nullptr;    // null in pipelines without a network
  ImageShape window;                   // the network's input; larger images are cut to it, in the middle
  bool predicts = false;               // a stage of the graph takes predictions: each sample is to come once
  bool is_beside_training = false;     // another graph trains: what this one cannot write must not end it
  std::vector<bool> taken = {};        // by output port of this stage: whether a stage takes what it sends; see sends()
  Group* group = nullptr;              // the processes of this run; null: this one is alone
  RunServices* run = nullptr;          // never null while a pipeline runs
  const Registry* registry = nullptr;  // never null while a pipeline runs; for looking up a part by name

  bool sends(std::size_t port) const { return port >= taken.size() || taken[port]; }
  std::string place() const;  // for messages: "mine.toml:14:1: [train.augment]"
};

// Also what the source lists and what arrives here.
struct DataContext : StageSite {
  ImageShape image;                     // of the images that arrive; 0 where an extent varies; is_plain() without any_image()
  TargetSpec target;                    // of the samples that arrive
  std::vector<std::string> classes;     // names by label, of the source or else of the weights
  std::vector<std::string> colours;     // of each class, "#804080", of the source or else of the weights
  std::uint64_t samples_per_epoch = 0;  // of the source
  std::uint64_t fingerprint = 0;        // of what the source lists and gives, and of the tables of all stages after it; 0: none
};

// Also the replicas, the steps and the batch's size.
struct StepContext : DataContext {
  std::vector<Replica*> replicas;  // of this process; none in a graph without a network
  std::vector<Device*> devices;    // of each of them
  int replica = -1;                // index into replicas, for a stage that has one instance per replica
  std::vector<double> load;        // share of each replica of all processes in a batch, relative; empty: all the same
  int first_replica = 0;           // number of replicas[0] among those of all processes
  std::uint32_t batch_size = 0;    // global
  double steps_per_epoch = 0;
  std::uint64_t total_steps = 0;            // of the run, as schedules count them
  std::uint64_t last_step = 0;              // after which the run ends: total_steps, or stop.max_steps before it
  bool hash_input = false;                  // stream hashes also cover what the network receives, hash_of_input()
  const CompileRequest* request = nullptr;  // what the stages of this graph ask of the network

  std::size_t all_replicas() const { return load.empty() ? replicas.size() : load.size(); }  // of all processes
  Share share_of(const Batch& batch) const;  // the slots that belong to the replica `replica`
};

// What a running pipeline offers its stages, as StageSite::run. Thread-safe. StepServices holds what few stages tell it.
class RunServices : public StepServices {
 public:
  virtual std::string output_folder() const = 0;    // of this run; empty when it writes none. See output_path()
  virtual void warn(std::string_view message) = 0;  // tells observers (WarningEvent)
  // A figure of one step, such as "learning_rate"; observers are told it with the step (StepEvent::scalars).
  virtual void scalar(std::string_view graph, std::uint64_t step, std::string_view name, double value) = 0;
  // A metric of a whole pass, reported before the pass's last Hold ends. Observers get it after those of the loss (PassEvent), and
  // run.best and [stop] may name it; of several with one name the first counts.
  // StepHooks::reported_figures() lists it.
  virtual void figure(std::string_view /*graph*/, const Figure& /*figure*/) {}
  // Before the first epoch, while a graph's first batches are tried: what comes now is not counted, and comes again.
  virtual bool is_dry_run() const { return false; }
};

// Where a stage sends packets. Valid while its stage lives, from any thread.
class Output {
 public:
  virtual ~Output() = default;
  virtual void emit(int port, Packet packet) = 0;  // to every stage at this output port; never blocks
  virtual void fail(Error error) = 0;              // ends the run

  // For work that goes on after process() has returned: the graph is not finished while a Hold lives. Its errors go to fail().
  class Hold {
   public:
    explicit Hold(Output& output);
    Hold(Hold&& other) noexcept;
    ~Hold();

   private:
    Output* output_;
  };
  Hold hold() { return Hold(*this); }

 protected:
  virtual void begin_hold() = 0;
  virtual void end_hold() = 0;
};

class Stage : public StepHooks {  // StepHooks: what only stages that work on devices are asked
 public:
  virtual void open() {}                                              // once, before the first packet; may block
  virtual void process(int port, Packet packet, Output& output) = 0;  // `port`: an index of inputs
  virtual void stop() noexcept {}                                     // after the last packet; idempotent

  virtual ImageShape image_shape() const { return {}; }            // of the images it emits, given DataContext::image
  virtual std::optional<TargetSpec> target() const { return {}; }  // that it emits; none: as it arrives
  virtual std::size_t memory_bound() const { return 0; }           // bytes of the host beyond the circulating batches, at most

  // What a checkpoint holds of the stage, beside parameters, states and step: text that the stage alone reads; "": nothing. The
  // first of several instances speaks for all. save() is called between steps; restore() before the first packet, with no "".
  virtual std::string save() const { return {}; }
  virtual void restore(std::string_view /*saved*/) {}
};

// Changes one sample at a time, on any thread, several at once. A sample that throws ErrorKind::content is marked bad and skipped
// by later stages; any other error ends the run. Ports: an ImageChunk in and out, unless described otherwise.
class SampleTransform : public Stage {
 public:
  virtual void process(Sample& sample, Draw& draw) = 0;
  void process(int port, Packet packet, Output& output) final;
  ImageShape image_shape() const override { return site_.image; }  // keeps the shape unless overridden

  // Whether it may draw, with these parameters; then it is refused before a cache. Drawing without it is ErrorKind::usage.
  virtual bool is_random() const { return false; }
  // Whether it may change pixels other than by the record; then it is refused after a cache that is on_device().
  virtual bool changes_pixels() const { return false; }

 private:
  friend struct StageTypeAccess;
  TransformSite site_;
};

// One In in, any number of Outs out.
template <class In, class Out>
class Transform : public Stage {
 public:
  virtual void process(In& in, const Packet& packet, Output& output) = 0;  // packet.payload holds `in`
  void process(int, Packet packet, Output& output) final { process(static_cast<In&>(*packet.payload), packet, output); }
};

template <class In>
class Sink : public Stage {
 public:
  virtual void process(In& in, Output& output) = 0;
  void process(int, Packet packet, Output& output) final { process(static_cast<In&>(*packet.payload), output); }
};

// What a stage type says about itself, in `static void describe(StageDescription<Params>&)`.
class StageAttributes {
 public:
  StageAttributes& name(std::string_view value);
  StageAttributes& text(std::string_view value);
  StageAttributes& input(std::string_view payload, std::string_view port = "in");
  StageAttributes& output(std::string_view payload, std::string_view port = "out");
  StageAttributes& serial();
  StageAttributes& per_replica();  // one instance for each replica; each is serial
  // Packets arrive in order of their sequence, each after the previous step has let go of its StepToken.
  StageAttributes& stepwise();
  StageAttributes& any_image();  // of any ImageShape::type and frames; without it, all but 8-bit images of one frame are refused
  // The stage may stand in a recipe. REQUIRES: with any values of its keys in_recipes(), it reads and writes nothing but packets,
  // or, of a sink, the file or folder that another key names.
  StageAttributes& in_recipes(RecipeRole role, RecipeEffect effect = RecipeEffect::none);
  // The results that --predict may have this sink write: "classes" of images, a "map" of classes, an "image", "numbers".
  StageAttributes& writes(std::initializer_list<std::string_view> results);
  // A table that checks make the stage from, and the images that then arrive; of a source, what fills its ${folder}.
  StageAttributes& example(std::string_view table, ImageShape image = {8, 8, 3});              // "chance = 1"
  StageAttributes& example(std::string_view table, void (*files)(const std::string& folder));  // "path = '${folder}/data.bin'"

 private:
  friend struct StageTypeAccess;
  std::string name_, text_;
  StageTraits traits_;
};

template <class Params>
struct StageDescription : StageAttributes {
  ParamSet<Params> params;
};

}  // namespace millrace

// Stages: the nodes of a pipeline. Four shapes cover what a training graph needs:
//
//   Source            reads samples (source.h); the framework handles order, shuffling, credits, chunks and retries
//   SampleTransform   changes one sample at a time (decode, resize, augment); the framework does the rest
//   Transform, Sink   receive whole payloads (Batch, GradientBucket, StepResult, or one of your own)
//   Stage             the general form: packets in, packets out; the others derive from it
//
// A minimal stage with its plugin:
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
// Life of a stage: the constructor checks all parameters and is cheap; open() may read data; process() is called for each packet;
// stop() ends the stage, and may be called twice or without open(). All but stop() may throw Error; the framework adds the
// pipeline, stage and sample to the message. No call may block a worker for long: wait in Source::read(), which has its own
// threads, or after Output::hold().
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

// Describes a stage's place in its run. A constructor may take a StageSite; after a source also a DataContext; after `batch` also
// a StepContext. A constructor that asks for a context not yet available does not compile, or is refused before the run. Copies
// may be kept: the objects behind the pointers live as long as the stage.
struct StageSite {
  std::string graph;                   // "train"
  std::string name;                    // "augment": the table's name, not the stage's type
  Position at;                         // the stage's table in the pipeline file, or its name in `flow`; empty without a file
  std::uint64_t seed = 0;              // the run's seed
  const Network* network = nullptr;    // null in pipelines without a network
  ImageShape window;                   // the network's input; larger images are cropped to their centre
  bool predicts = false;               // true if a stage of this graph takes predictions: each sample must come once
  bool is_during_training = false;     // true while another graph trains: write failures here must not stop training
  std::vector<bool> taken = {};        // by output port of this stage: whether a stage receives its packets; see sends()
  Group* group = nullptr;              // the processes of this run; null if this is the only one
  RunServices* run = nullptr;          // never null while a pipeline runs
  const Registry* registry = nullptr;  // never null while a pipeline runs; used to look up types by name

  bool sends(std::size_t port) const { return port >= taken.size() || taken[port]; }
  std::string place() const;  // for messages: "mine.toml:14:1: [train.augment]"
};

// Adds the source's listing and a description of the images that arrive.
struct DataContext : StageSite {
  ImageShape image;                     // shape of arriving images; 0 where an extent varies; is_plain() without any_image()
  TargetSpec target;                    // of arriving samples
  std::vector<std::string> classes;     // names by label, from the source or else the weights
  std::vector<std::string> colours;     // one per class, "#804080", from the source or else the weights
  std::uint64_t samples_per_epoch = 0;  // size of the source
  std::uint64_t fingerprint = 0;        // hash of the source's data and of the tables of all stages after it; 0: none
};

// Adds the replicas, the steps and the batch size.
struct StepContext : DataContext {
  std::vector<Replica*> replicas;  // this process's replicas; empty in a graph without a network
  std::vector<Device*> devices;    // the device of each replica
  int replica = -1;                // index into replicas, for a stage that has one instance per replica
  std::vector<double> load;        // relative share of a batch for each replica of all processes; empty: equal shares
  int first_replica = 0;           // index of replicas[0] among the replicas of all processes
  std::uint32_t batch_size = 0;    // global
  double steps_per_epoch = 0;
  std::uint64_t total_steps = 0;            // in the run, as schedules count them
  std::uint64_t last_step = 0;              // the run ends after this step: total_steps or stop.max_steps, whichever is smaller
  bool hash_input = false;                  // stream hashes also cover the network's input, hash_of_input()
  const CompileRequest* request = nullptr;  // what this graph's stages request from the network

  std::size_t all_replicas() const { return load.empty() ? replicas.size() : load.size(); }  // in all processes
  Share share_of(const Batch& batch) const;  // the slots that belong to replica number `replica`
};

// Services of a running pipeline, available as StageSite::run. Thread-safe. StepServices holds those that few stages need.
class RunServices : public StepServices {
 public:
  virtual std::string output_folder() const = 0;    // of this run; empty if it writes none. See output_path()
  virtual void warn(std::string_view message) = 0;  // sends observers a WarningEvent
  // Records a value of one step, such as "learning_rate". Observers receive it with the step (StepEvent::scalars).
  virtual void scalar(std::string_view graph, std::uint64_t step, std::string_view name, double value) = 0;
  // Reports a metric of a whole pass. Call it before the pass's last Hold ends. Observers receive it after the metrics of the
  // loss (PassEvent), and run.best and [stop] may name it. If several share a name, the first counts.
  // StepHooks::reported_figures() lists it.
  virtual void figure(std::string_view /*graph*/, const Figure& /*figure*/) {}
  // True before the first epoch, while a graph's first batches are tried. These samples are not counted and come again.
  virtual bool is_dry_run() const { return false; }
};

// Sends a stage's packets. Valid while the stage lives; thread-safe.
class Output {
 public:
  virtual ~Output() = default;
  virtual void emit(int port, Packet packet) = 0;  // to every stage at this output port; never blocks
  virtual void fail(Error error) = 0;              // ends the run

  // Covers work that continues after process() has returned: the graph does not finish while a Hold lives. Report errors of this
  // work by fail().
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

class Stage : public StepHooks {  // StepHooks: calls for stages that work on devices
 public:
  virtual void open() {}                                              // once, before the first packet; may block
  virtual void process(int port, Packet packet, Output& output) = 0;  // `port`: index of the input
  virtual void stop() noexcept {}                                     // after the last packet; idempotent

  virtual ImageShape image_shape() const { return {}; }            // shape of the emitted images, given DataContext::image
  virtual std::optional<TargetSpec> target() const { return {}; }  // the emitted target; empty: unchanged
  virtual std::size_t memory_bound() const { return 0; }           // maximum of host memory in bytes, without circulating batches

  // The stage's own part of a checkpoint, in addition to parameters, states and step: text that only the stage reads; "" for
  // none. The first instance represents all instances. save() is called between steps; restore() before the first packet, never
  // with "".
  virtual std::string save() const { return {}; }
  virtual void restore(std::string_view /*saved*/) {}
};

// Changes one sample at a time, on several threads at once. If process() throws ErrorKind::content, the sample is marked bad and
// later stages skip it; any other error ends the run. Ports: an ImageChunk in and out, unless described otherwise.
class SampleTransform : public Stage {
 public:
  virtual void process(Sample& sample, Draw& draw) = 0;
  void process(int port, Packet packet, Output& output) final;
  ImageShape image_shape() const override { return site_.image; }  // keeps the shape unless overridden

  // Whether it may draw random numbers with these parameters; if so, it is refused before a cache. Drawing when this is false
  // throws ErrorKind::usage.
  virtual bool is_random() const { return false; }
  // Whether it may change pixels except through the record; if so, it is refused after a cache that is on_device().
  virtual bool changes_pixels() const { return false; }

 private:
  friend struct StageTypeAccess;
  TransformSite site_;
};

// Takes one In and emits any number of Outs.
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

// Describes a stage type in `static void describe(StageDescription<Params>&)`.
class StageAttributes {
 public:
  StageAttributes& name(std::string_view value);
  StageAttributes& text(std::string_view value);
  StageAttributes& input(std::string_view payload, std::string_view port = "in");
  StageAttributes& output(std::string_view payload, std::string_view port = "out");
  StageAttributes& serial();
  StageAttributes& per_replica();  // one instance for each replica; each is serial
  // Packets arrive in the order of their sequence, each after the previous step has released its StepToken.
  StageAttributes& stepwise();
  StageAttributes& any_image();  // accepts any ImageShape::type and number of frames; otherwise only 8-bit images of one frame
                                 // are accepted
  // The stage may appear in a recipe. REQUIRES: with any values of its keys in_recipes(), it reads and writes only packets; a
  // sink may also write the file or folder that another key names.
  StageAttributes& in_recipes(RecipeRole role, RecipeEffect effect = RecipeEffect::none);
  // Results that --predict may have this sink write: "classes" of images, a "map" of classes, an "image", "numbers".
  StageAttributes& writes(std::initializer_list<std::string_view> results);
  // A table from which checks make the stage, and the shape of the images it then receives; for a source, a function that fills
  // its ${folder}.
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

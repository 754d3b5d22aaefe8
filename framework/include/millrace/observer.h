// Observers receive a run's events: the progress line, metrics.jsonl, results.csv and the log of bad samples are observers.
//
//   class Bell : public millrace::RunObserver {
//    public:
//     struct Params { std::string sound = "\a"; };
//     static void describe(millrace::ObserverDescription<Params>& d) {
//       d.name("bell").text("Rings at the end of each epoch.").delivery(millrace::Delivery::latest);
//       d.params.add("sound", &Params::sound).text("written to standard output");
//     }
//     explicit Bell(const Params& params) : params_(params) {}
//     void epoch(const millrace::EpochEvent&) override { std::fputs(params_.sound.c_str(), stdout); }
//    private:
//     Params params_;
//   };
//   MILLRACE_PLUGIN("bell", "1.0", "Rings a bell.") { registry.add_observer<Bell>(); }
//
// In a pipeline, [observe.bell] turns it on and holds its parameters.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "millrace/detail/figure.h"
#include "millrace/detail/request_event.h"
#include "millrace/params.h"

namespace millrace {

struct TelemetryEvent;  // util/telemetry_event.h

// Events are plain values. Epochs and steps are numbered from 1; `elapsed_seconds` is the time since the run began.

struct RunStart {
  std::string name, file;        // [run] name; the pipeline file
  std::filesystem::path folder;  // the run's folder, where observers write; empty: nothing is written
  std::string graph;             // the main graph: "train"
  std::int64_t seed = 0;
  double epochs = 0;
  std::uint64_t first_step = 1, steps = 0, steps_per_epoch = 0;  // the first and the last step of this run
  std::size_t replicas = 0;
  // True if the run resumes from a checkpoint. Records in `folder` about steps after checkpoint_step are superseded. first_step -
  // 1 is the checkpoint's step in today's steps, which differs from checkpoint_step if the batch size has changed
  // (util/earlier_events.h).
  bool resumed = false;
  std::uint64_t checkpoint_step = 0;
  std::filesystem::path checkpoint;  // the run resumes from this; empty: a new run
  double elapsed_seconds = 0;
};

// A step of the main graph is done. Sent every run.log_every steps.
struct StepEvent {
  std::string graph;
  std::uint64_t epoch = 0, step = 0;
  bool reported = false;        // a stage reports the loss; false: epoch, figures and images_per_second are unknown
  std::vector<Figure> figures;  // of this step alone
  std::vector<std::pair<std::string, double>> scalars;  // by name: "learning_rate"
  double images_per_second = 0;
  double elapsed_seconds = 0;
};

// An epoch of the main graph is done, or the part of it that was run.
struct EpochEvent {
  std::string graph;
  std::uint64_t epoch = 0, step = 0;
  double epochs = 0;      // in the whole run
  bool reported = false;  // false: figures and stream_hash are unknown
  std::vector<Figure> figures;
  double images_per_second = 0, seconds = 0;
  std::uint64_t stream_hash = 0;
  std::size_t resident_bytes = 0;
  double elapsed_seconds = 0;
  std::string waits_for;  // like TelemetryEvent::bottleneck, over the epoch; empty: unknown
};

// A pass of another graph is done, such as validation.
struct PassEvent {
  std::string graph;
  double epoch = 0;        // main graph, done so far
  std::uint64_t step = 0;  // main graph, done so far
  double samples = 0;
  bool reported = false;  // false: no stage reports metrics, as when data stages run alone
  std::vector<Figure> figures;
  std::vector<double> class_matrix;  // counts by [class][predicted class] (class_matrix.h); empty if the loss does not count them
  std::vector<std::string> classes;  // their names; may be empty
  std::string only_class;            // the single class predicted everywhere although several occur; "": none
  double images_per_second = 0, seconds = 0;
  std::uint64_t stream_hash = 0;
  double elapsed_seconds = 0;
  std::uint64_t best_step = 0;  // if not 0, the pass used the best weights, of this step, instead of those of `step`
};

struct BadSampleEvent {
  std::string graph;
  std::string place;  // for messages: the file and the position in it
  std::string path, member;
  std::uint64_t offset = 0;
  std::string stage, cause;
  std::string action;                                  // "replaced", "skipped", "fatal"
  std::uint64_t epoch = 0;                             // from 1
  std::uint64_t position = 0, index = 0, attempt = 0;  // from 0, as in SampleKey
  std::uint64_t count = 0;                             // bad samples so far, this one included
};

// A problem that does not end the run.
struct WarningEvent {
  std::string text;
};

// A checkpoint is on disk and is now the newest. Sent when it is written, while training continues.
struct CheckpointEvent {
  std::uint64_t step = 0;          // main graph, done
  std::filesystem::path path;      // its folder
  double stood_still_seconds = 0;  // how long training paused for the copies to be written
  double seconds = 0;              // from these copies to the disk
  std::uint64_t bytes = 0;
  bool best = false;  // by the metric of run.best or checkpoint.best
  double elapsed_seconds = 0;
  bool by_default = false;  // true if the pipeline did not request it
};

// Progress, sent about 20 times a second while the main graph runs. A tick that an observer has not taken yet is replaced by the
// next.
struct TickEvent {
  std::string graph;
  double epoch = 0, epochs = 0;  // done so far, with its fraction
  std::uint64_t step = 0, steps = 0;
  std::vector<Figure> figures;  // of the epoch so far
  double images_per_second = 0;
  double waited_for_data_seconds = 0, waited_for_step_seconds = 0;  // by the main graph, since it began
  std::string waits_for;    // what the run waits for: TelemetryEvent::bottleneck, or "observer metrics"; empty: not yet known
  double seconds_left = 0;  // 0: unknown
};

struct RunEnd {
  double epoch = 0;        // done
  std::uint64_t step = 0;  // done
  std::uint64_t bad_samples = 0;
  int signal = 0;             // signal that stopped the run; 0: none
  bool stopped = false;       // ended before its last step by request
  std::string weights_file;   // written at the end; empty: none
  std::string error;          // the error that ended the run; empty: none
  std::uint64_t dropped = 0;  // steps and ticks that this observer missed while it was busy
  double elapsed_seconds = 0;
};

std::string duration_text(double seconds);  // "1 h 02 min", "2 min 10 s", "8.4 s"

// Requests to a run. Calls return at once. A request takes effect at the end of the next step or is refused; a RequestEvent
// (detail/request_event.h) reports which. Thread-safe.
class RunControl {
 public:
  virtual ~RunControl() = default;
  virtual void stop() = 0;      // ends the run in an orderly way; the weights are saved
  virtual void save() = 0;      // writes the weights into the run's folder
  virtual void validate() = 0;  // runs every other graph once
  // Multiplies the schedule's learning rate by `factor`, from 0.001 to 1000, until the next call. Other factors are refused.
  virtual void rate_factor(double factor) = 0;
  virtual void warn(std::string_view message) = 0;  // sends all observers a WarningEvent
  virtual void checkpoint() = 0;                    // writes one; refused if the run writes none
};

enum class Delivery {
  all,     // only ticks may be dropped: the run waits, and warns, once the observer is 1,024 events behind
  latest,  // the run never waits: a slow observer misses steps and ticks
};

// Each observer runs on its own thread and receives events in order: start() first and end() last, except that warning() may come
// before and after. With Delivery::all an error in start() ends the run, and an error in end() makes it fail. After any other
// error the run warns and calls the observer no more.
class RunObserver {
 public:
  virtual ~RunObserver() = default;
  virtual void start(const RunStart&, RunControl&) {}  // the control is valid until the observer is destroyed
  virtual void step(const StepEvent&) {}
  virtual void epoch(const EpochEvent&) {}
  virtual void pass(const PassEvent&) {}
  virtual void checkpoint(const CheckpointEvent&) {}
  virtual void bad_sample(const BadSampleEvent&) {}
  virtual void warning(const WarningEvent&) {}
  virtual void request(const RequestEvent&) {}
  virtual void tick(const TickEvent&) {}
  virtual void telemetry(const TelemetryEvent&) {}
  virtual void end(const RunEnd&) {}
  // Called with Delivery::all. When flush() returns, earlier events must be visible to other processes and survive a killed
  // process; it is called at the end of each epoch, before other graphs run, and before end(). When sync() returns, they must
  // survive a power failure; it is called before a checkpoint becomes the newest, while training continues.
  virtual void flush() {}
  virtual void sync() {}
};

// Describes an observer in `static void describe(ObserverDescription<Params>&)`.
template <class Params>
class ObserverDescription {
 public:
  ObserverDescription& name(std::string_view value) { return name_ = value, *this; }
  ObserverDescription& text(std::string_view value) { return text_ = value, *this; }
  ObserverDescription& delivery(Delivery value) { return delivery_ = value, *this; }
  ObserverDescription& by_default() { return by_default_ = true, *this; }
  ParamSet<Params> params;

 private:
  friend struct ObserverMaker;
  std::string name_, text_;
  Delivery delivery_ = Delivery::all;
  bool by_default_ = false;
};

}  // namespace millrace

#include "millrace/templates/observer_type.h"

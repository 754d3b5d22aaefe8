// A run tells, others listen: the progress line, metrics.jsonl, results.csv and the ledger of bad samples are observers.
//
//   class Bell : public millrace::RunObserver {
//    public:
//     struct Params { std::string sound = "\a"; };
//     static void describe(millrace::ObserverDescription<Params>& d) {
//       d.name("bell").text("Rings at the end of each epoch.").delivery(millrace::Delivery::latest);
//       d.params.add("sound", &Params::sound).text("what is written to standard output");
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

// What is told is plain values. Epochs and steps are numbered from 1; `elapsed_seconds` is the time since the run began.

struct RunStart {
  std::string name, file;        // [run] name; the pipeline file
  std::filesystem::path folder;  // of the run, where observers write; empty: nothing is written
  std::string graph;             // the main graph: "train"
  std::int64_t seed = 0;
  double epochs = 0;
  std::uint64_t first_step = 1, steps = 0, steps_per_epoch = 0;  // the first and the last step of this run
  std::size_t replicas = 0;
  // From a checkpoint. What the files in `folder` say of steps after checkpoint_step is superseded. The checkpoint's steps are
  // first_step - 1 today, which is another number where batches have another size than before (util/retold.h).
  bool resumed = false;
  std::uint64_t checkpoint_step = 0;
  std::filesystem::path checkpoint;  // that the run resumes from; empty: it begins
  double elapsed_seconds = 0;
};

// One step of the main graph is done. Told every run.log_every steps.
struct StepEvent {
  std::string graph;
  std::uint64_t epoch = 0, step = 0;
  bool reported = false;        // a stage reports the loss; false: epoch, figures and images_per_second are not known
  std::vector<Figure> figures;  // of this step alone
  std::vector<std::pair<std::string, double>> scalars;  // "learning_rate", by name
  double images_per_second = 0;
  double elapsed_seconds = 0;
};

// An epoch of the main graph is done, or the part of it that was run.
struct EpochEvent {
  std::string graph;
  std::uint64_t epoch = 0, step = 0;
  double epochs = 0;      // of the run
  bool reported = false;  // false: figures and stream_hash are not known
  std::vector<Figure> figures;
  double images_per_second = 0, seconds = 0;
  std::uint64_t stream_hash = 0;
  std::size_t resident_bytes = 0;
  double elapsed_seconds = 0;
  std::string waits_for;  // as TelemetryEvent::bottleneck, over the epoch; empty: not known
};

// Another graph was run, as for validation.
struct PassEvent {
  std::string graph;
  double epoch = 0;        // of the main graph, done so far
  std::uint64_t step = 0;  // of the main graph, done so far
  double samples = 0;
  bool reported = false;  // false: no stage reports figures, as where data stages run alone
  std::vector<Figure> figures;
  std::vector<double> class_matrix;  // counts by [class][predicted class] (class_matrix.h); empty: the loss counts none
  std::vector<std::string> classes;  // their names; may be empty
  std::string only_class;            // the one that everything was predicted as, though several occur; "": there is none
  double images_per_second = 0, seconds = 0;
  std::uint64_t stream_hash = 0;
  double elapsed_seconds = 0;
  std::uint64_t best_step = 0;  // the weights were the best ones, of this step, and not those of `step`; 0: those of `step`
};

struct BadSampleEvent {
  std::string graph;
  std::string place;  // for messages: the file, and where in it
  std::string path, member;
  std::uint64_t offset = 0;
  std::string stage, cause;
  std::string action;                                  // "replaced", "skipped", "fatal"
  std::uint64_t epoch = 0;                             // from 1
  std::uint64_t position = 0, index = 0, attempt = 0;  // from 0, as SampleKey has them
  std::uint64_t count = 0;                             // bad samples so far, this one included
};

// A problem that does not end the run.
struct WarningEvent {
  std::string text;
};

// A checkpoint is on the disk, and is now the newest. Told when it is written, while training goes on.
struct CheckpointEvent {
  std::uint64_t step = 0;          // of the main graph, done in it
  std::filesystem::path path;      // its folder
  double stood_still_seconds = 0;  // training, for the copies that are written
  double seconds = 0;              // from these copies to the disk
  std::uint64_t bytes = 0;
  bool best = false;  // by the metric of run.best or checkpoint.best
  double elapsed_seconds = 0;
  bool by_default = false;  // the pipeline did not ask for it
};

// How far the run is: told about 20 times a second while the main graph runs. A tick that an observer has not taken yet is
// replaced by the next.
struct TickEvent {
  std::string graph;
  double epoch = 0, epochs = 0;  // done so far, with its fraction
  std::uint64_t step = 0, steps = 0;
  std::vector<Figure> figures;  // of the epoch so far
  double images_per_second = 0;
  double waited_for_data_seconds = 0, waited_for_step_seconds = 0;  // by the main graph, since it began
  std::string waits_for;    // what the run waits for: TelemetryEvent::bottleneck, or "observer metrics"; empty: not known yet
  double seconds_left = 0;  // 0: not known
};

struct RunEnd {
  double epoch = 0;        // done
  std::uint64_t step = 0;  // done
  std::uint64_t bad_samples = 0;
  int signal = 0;             // that stopped the run; 0: none did
  bool stopped = false;       // before its last step, because somebody asked for it
  std::string weights_file;   // written at the end; empty: none
  std::string error;          // that ended the run; empty: none did
  std::uint64_t dropped = 0;  // steps and ticks that this observer was not told, since it was busy
  double elapsed_seconds = 0;
};

std::string duration_text(double seconds);  // "1 h 02 min", "2 min 10 s", "8.4 s"

// What may be asked of a run. Calls return at once. What is asked for happens at the next step's end, or is refused; a
// RequestEvent (detail/request_event.h) says which. Thread-safe.
class RunControl {
 public:
  virtual ~RunControl() = default;
  virtual void stop() = 0;      // ends the run in good order; the weights are saved
  virtual void save() = 0;      // writes the weights into the run's folder
  virtual void validate() = 0;  // runs every other graph once
  // The learning rate becomes the schedule's times `factor`, from 0.001 to 1000, until the next call. Others are refused.
  virtual void rate_factor(double factor) = 0;
  virtual void warn(std::string_view message) = 0;  // told to all observers as a WarningEvent
  virtual void checkpoint() = 0;                    // writes one; refused where the run writes none
};

enum class Delivery {
  all,     // nothing but ticks is lost: the run waits where the observer is 1,024 events behind, and says so
  latest,  // the run never waits: steps and ticks are dropped where the observer is slow
};

// Each observer is called on a thread of its own, in the order of what happened: start() first and end() last, but for warning(),
// which may come before and after. With Delivery::all an error in start() ends the run, and one in end() makes it fail. After any
// other error the run warns, and tells the observer nothing more.
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
  // Called with Delivery::all. When flush() returns, others can see what was told, and it outlives a killed process: at the end
  // of each epoch, before other graphs run, and before end(). When sync() returns, it outlives a loss of power: before a
  // checkpoint becomes the newest, while training goes on.
  virtual void flush() {}
  virtual void sync() {}
};

// What an observer says about itself, in `static void describe(ObserverDescription<Params>&)`.
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

#include "millrace/detail/observer_type.h"

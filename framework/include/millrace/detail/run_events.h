// What a run tells its observers (observer.h): plain values. Epochs and steps are numbered from 1; `elapsed_seconds` is the time
// since the run began.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

namespace millrace {

struct Figure {
  std::string name;  // "loss", "accuracy"
  double value = 0;
  bool percent = false;  // a share from 0 to 1, shown in percent
  bool higher_is_better = false;
};

struct RunStart {
  std::string name, file;        // [run] name; the pipeline file
  std::filesystem::path folder;  // of the run, where observers write; empty: nothing is written
  std::string graph;             // the main graph: "train"
  std::int64_t seed = 0;
  double epochs = 0;
  std::uint64_t first_step = 1, steps = 0, steps_per_epoch = 0;  // the first and the last step of this run
  std::size_t replicas = 0;
  // The run goes on behind a checkpoint: `folder` has the files that it has written before. What they say of steps from
  // first_step on is superseded.
  bool resumed = false;
  std::filesystem::path checkpoint;  // that it goes on behind; empty: it begins
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
  double images_per_second = 0, seconds = 0;
  std::uint64_t stream_hash = 0;
  double elapsed_seconds = 0;
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
  bool best = false;  // by the figure of checkpoint.best
  double elapsed_seconds = 0;
};

enum class RequestKind { stop, save, validate, rate_factor, checkpoint };
const char* to_string(RequestKind kind);

// What a RunControl was asked for: once when it was asked, and once when that was honoured or refused.
struct RequestEvent {
  enum class State { asked, honoured, refused };
  RequestKind kind = RequestKind::stop;
  State state = State::asked;
  std::string by;          // "signal 15", "observer page"
  int signal = 0;          // that asked for it; 0: none did
  double factor = 1;       // of rate_factor
  std::uint64_t step = 0;  // steps done when it was honoured: the next one is the first that it concerns
  std::string text;        // honoured: what was done, such as the file that was written, or why the run stops; refused: why
  double elapsed_seconds = 0;
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
  std::string waits_for;    // what the run waits for now: "data (decode_image)", "observer metrics"
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

}  // namespace millrace

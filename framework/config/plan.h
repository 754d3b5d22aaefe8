// A checked pipeline file, as used by run/ and the tools.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "config/checkpoint_plan.h"
#include "config/every.h"
#include "config/stop_plan.h"
#include "graph/flow_plan.h"
#include "millrace/backend/network.h"
#include "millrace/detail/value.h"
#include "millrace/observer.h"
#include "millrace/plugin.h"
#include "network/transfer.h"
#include "toml/base_files.h"

namespace millrace {

// [run]
struct RunParams {
  std::string name;   // default: the file's stem
  double epochs = 1;  // may have a fraction; the run has ceil(epochs * steps per epoch) steps
  std::int64_t seed = 1;
  std::int64_t threads = 0;  // for data stages; 0: "auto"
  std::int64_t io_threads = 2;
  std::int64_t chunk = 0;  // samples per packet; 0: chosen by the framework
  std::string devices = "auto";
  std::vector<double> load;  // one share per replica; empty: equal, or measured (prepare/load_choice.h)
  std::string precision = "auto";
  std::string tune = "heuristic";  // for these see CompileOptions
  bool deterministic = true;
  bool graphs = true;
  bool recompute = false;
  std::string memory;           // host memory available to a batch of size "auto"; "": see util/memory_limit.h
  std::string folder = "runs";  // parent of run folders; "": none are written
  std::string best;             // "validate.accuracy": keeps the weights with its best value; "": none
  std::int64_t log_every = 1;   // interval of StepEvents in steps
  // Reaction of a training run to a loss or gradient that is not finite: "stop", "skip", "rollback".
  std::string on_nan = "stop";
  double nan_rate_factor = 0.5;       // multiplies the learning rate at each rollback
  std::int64_t nan_limit = 5;         // maximum of consecutive skipped steps, or of rollbacks
  std::int64_t compare_replicas = 0;  // steps between comparisons of the replicas' weights; 0: never

  static void describe(ParamSet<RunParams>& set);
};

struct GraphPlan : FlowPlan {
  std::string every;   // as written, "2 epochs"; "" for the first graph
  Every when;          // `every`, parsed
  bool before = true;  // unless it is the first graph: two of its batches are tried before the first epoch
  Position at;
};

// An observer of the run.
struct ObserverPlan {
  std::string name;
  const ObserverType* type = nullptr;
  Value table;  // its parameters, resolved
};

// Options for loading a pipeline.
struct LoadOptions {
  // The run uses other weights than [network] names, as with --weights: those in [network] may be missing.
  bool other_weights = false;
  bool sent_weights = false;  // another rank sends the weights in [network] if they are missing
  // The option that made the file and its network, such as "--predict": messages name it instead of positions in files that the
  // user has not written. "": the files are the user's.
  std::string made_by;
  bool whole_data = false;  // hold out nothing from data at data.path without parts: they will be split later
};

struct Pipeline {
  std::string file;
  std::string made_by;             // see LoadOptions
  BaseFiles bases;                 // extended by the file
  std::vector<std::string> files;  // files read: the file, and those that it extends
  RunParams run;
  StopPlan stop;
  PlateauPlan plateau;
  CheckpointPlan checkpoint;
  std::optional<FigurePlan> best;          // the metric in run.best
  Value network_table;                     // [network]; empty if there is none
  NetworkParams network_params;            // `use` and `weights`: see NetworkPlan
  std::shared_ptr<const Network> network;  // with `freeze` applied; null if there is none
  bool classes_follow_data = false;        // the file does not set the network's `classes`
  std::vector<GraphPlan> graphs;           // in the order of the file
  std::vector<ObserverPlan> observers;     // by name
  // The whole file after extends, ${...} and --set, for storage with the run: without defaults, without used values outside
  // tables, and with ${env.NAME} unexpanded, since it may be a password.
  Value resolved;
  std::vector<std::string> warnings;  // likely mistakes, for the run's observers

  const GraphPlan* graph(std::string_view name) const;
  const std::string& title() const { return made_by.empty() ? file : made_by; }  // names the pipeline in messages
  // Position of `key`, such as "run.epochs", for messages: "mine.toml:3:10". If it is missing, the position of its table, or
  // title(). Positions in a base file follow the user's line that names the base file.
  std::string place_of(std::string_view key) const;
};

// Reads and checks a pipeline: a file, the one in the folder of a run, or a base file by its name (see shipped.h). It accesses
// data for only two things that a file may leave out: it locates data (see data_layout.h), and lists them if [network] has no
// `classes`. `overrides`: "key.path=value" as given to --set. Throws Error(usage) with all mistakes and their positions.
//
// Edges: each input port of a stage is connected to the nearest stage before it in `flow` that has an output port of that payload
// type; `from = "stage"` or "stage.port" (or a list, one for each input port) in a stage's table chooses another. Outputs without
// a consumer are dropped. Errors: inputs without a producer; samples with no consumer or with two, since stages change samples in
// place; and unused gradients.
//
// Top-level tables: [run]; [stop] and [plateau] (see stop_plan.h); [checkpoint] (see checkpoint_plan.h); [observe], with a table
// for each observer; [network], which has the keys of NetworkParams (see network_plan.h) and whose other
// keys are variables of the network; graphs, which are the tables with `flow`. All but one graph have `every`. Any other key is a
// variable for ${...}. Errors: an unused key that looks like a misspelt "run" or "network"; a value outside tables with the name
// of a key, such as `epochs`; and a --set of a key that does not exist.
Pipeline load_pipeline(const std::string& path, const std::vector<std::string>& overrides, const Registry& registry,
                       const LoadOptions& options = {});

}  // namespace millrace

// A pipeline file, checked: what run/ and the tools work from.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "config/base_files.h"
#include "config/checkpoint_plan.h"
#include "config/every.h"
#include "config/stop_plan.h"
#include "millrace/backend/network.h"
#include "millrace/detail/value.h"
#include "millrace/observer.h"
#include "millrace/plugin.h"
#include "network/transfer.h"

namespace millrace {

// [run]
struct RunParams {
  std::string name;   // default: the file's stem
  double epochs = 1;  // may have a fraction; the run has ceil(epochs * steps per epoch) steps
  std::int64_t seed = 1;
  std::int64_t threads = 0;  // of the data stages; 0: "auto"
  std::int64_t io_threads = 2;
  std::int64_t chunk = 0;  // samples a packet; 0: chosen by the framework
  std::string devices = "auto";
  std::vector<double> load;  // one share per replica; empty: equal, or measured (prepare/load_choice.h)
  std::string precision = "auto";
  std::string tune = "heuristic";  // these: see CompileOptions
  bool deterministic = true;
  bool graphs = true;
  bool recompute = false;
  std::string memory;           // of the host, that a batch of size "auto" may count on; "": see memory_limits/limit.h
  std::string folder = "runs";  // where run folders are made; "" writes none
  std::string best;             // "validate.accuracy": the weights at its best value are kept; "": they are not
  std::int64_t log_every = 1;   // from one StepEvent to the next
  // What becomes of a training run whose loss or gradient is not finite: "stop", "skip", "rollback".
  std::string on_nan = "stop";
  double nan_rate_factor = 0.5;       // of the learning rate, each time that the run goes back
  std::int64_t nan_limit = 5;         // steps in a row that may be skipped, or how often the run may go back
  std::int64_t compare_replicas = 0;  // steps between two comparisons of the replicas' weights; 0: never

  static void describe(ParamSet<RunParams>& set);
};

struct StagePlan {
  std::string name;  // the table's name
  const StageType* type = nullptr;
  Value table;     // its parameters, resolved; without `stage` and `from`
  Position at;     // of its name in `flow`
  Position users;  // where a base file has its table: the --set that took a key away, or else the user's `extends`; else null
  // Where its table is, if the file has one; else as `at`. Messages that are not about `flow` name it.
  const Position& table_at() const { return is_in_file(table.at()) ? table.at() : at; }
};

// From an output port to an input port; indices into GraphPlan::stages and StageType::outputs / inputs.
struct EdgePlan {
  int from_stage = 0, from_port = 0;
  int to_stage = 0, to_port = 0;
};

struct GraphPlan {
  std::string name;               // "train"
  std::string every;              // as written, "2 epochs"; "" for the first graph
  Every when;                     // what that means
  bool before = true;             // unless it is the first graph: two of its batches are tried before the first epoch
  std::vector<StagePlan> stages;  // in flow order: an edge only leads forward
  std::vector<EdgePlan> edges;
  Position at;
};

// One observer that listens to the run.
struct ObserverPlan {
  std::string name;
  const ObserverType* type = nullptr;
  Value table;  // its parameters, resolved
};

// How a pipeline is loaded.
struct LoadOptions {
  bool other_weights = false;  // the run begins with others than its [network] says, as with --weights: these need not be there
  bool sent_weights = false;   // another rank sends those that [network] names where they are not there
  // The option that made the file and the network which it names, such as "--predict": messages name it, and no places in files
  // that the user has not written. "": the files are the user's.
  std::string made_by;
  bool whole_data = false;  // of what lies at data.path and has no parts, nothing is held out: it is to be divided
};

struct Pipeline {
  std::string file;
  std::string made_by;             // see LoadOptions
  BaseFiles bases;                 // that the file extends
  std::vector<std::string> files;  // that were read: the file, and those that it extends
  RunParams run;
  StopPlan stop;
  PlateauPlan plateau;
  CheckpointPlan checkpoint;
  std::optional<FigurePlan> best;          // what run.best names
  Value network_table;                     // [network]; empty when there is none
  NetworkParams network_params;            // `use` and `weights`: as in NetworkPlan
  std::shared_ptr<const Network> network;  // with `freeze` applied; null when there is none
  bool classes_follow_data = false;        // the file says no `classes` of the network
  std::vector<GraphPlan> graphs;           // in the order of the file
  std::vector<ObserverPlan> observers;     // by name
  // The whole file after extends, ${...}, --set, for what a run keeps of it: without defaults, without values that stand in no
  // table and are used, and with ${env.NAME} as it is written, since it may be a password.
  Value resolved;
  std::vector<std::string> warnings;  // of what may be meant, and rarely is: for the run's observers

  const GraphPlan* graph(std::string_view name) const;
  const std::string& title() const { return made_by.empty() ? file : made_by; }  // of messages
  // Where the file says `key`, such as "run.epochs", for messages: "mine.toml:3:10". Without it the place of its table, or
  // title(). What a base file says stands after the user's line that names the base file.
  std::string place_of(std::string_view key) const;
};

// Reads and checks a pipeline: a file, the one in the folder of a run, or a base file by its name (see shipped.h). It touches no data, but for two things that a
// file may leave out: it looks where data lie (see data_layout.h), and lists them where [network] has no `classes`. `overrides`:
// "key.path=value" as given to --set. Throws Error(usage) that lists every mistake with its position.
//
// Edges: each input port of a stage is connected to the nearest stage before it in `flow` that has an output port of that
// payload type; `from = "stage"` or "stage.port" (or a list, one for each input port) in a stage's table chooses another.
// An output that no stage takes is dropped. An input that no stage feeds is a mistake, and so are samples that no stage takes or
// that two stages take: stages change samples where they lie. So are gradients that no stage uses.
//
// Top-level tables: [run]; [stop] and [plateau] (see stop_plan.h); [checkpoint] (see checkpoint_plan.h); [observe], which holds a
// table for each observer (see observer_plan.h); [network], which has the keys of NetworkParams (see network_plan.h) and whose
// other keys are variables of the network; graphs, which are the tables with `flow`. All but one graph have `every`. Any other
// key is a variable for ${...}. A key that looks like a misspelt "run" or "network" and that nothing refers to is a mistake; so
// is a value that stands in no table and has the name of a key, such as `epochs`, and a --set of a key that does not exist.
Pipeline load_pipeline(const std::string& path, const std::vector<std::string>& overrides, const Registry& registry,
                       const LoadOptions& options = {});

}  // namespace millrace

// Options of a program that runs a pipeline.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "graph/graph.h"
#include "millrace/observer.h"
#include "millrace/util/group.h"
#include "prepare/step_range.h"
#include "report/activity.h"

namespace millrace {

// Options for a run that resumes from a checkpoint.
struct ResumeWishes {
  // The folder of a run, for its newest checkpoint, or a checkpoint in it; "": the newest run of this name. If unset,
  // [checkpoint] resume applies.
  std::optional<std::string> run;
  std::vector<std::string> allow_change;  // keys that may differ from the checkpoint's file
  std::optional<double> rate_factor;      // for the learning rate, after a rollback; unset: the checkpoint's
  std::string notice;                     // a warning to report first; "": none
  bool replays = false;                   // replay() will be called instead of making a Run; a checkpoint is optional
};

// Connections between a program and its running run.
struct RunHooks {
  Activity* activity = nullptr;                          // receives the run's activity; may be null
  const std::atomic<int>* stop_signal = nullptr;         // a received signal: the run ends after the current steps
  const std::atomic<int>* checkpoint_signals = nullptr;  // number of signals that request a checkpoint
  std::shared_ptr<RunObserver> observer;                 // in addition to those of the file, with Delivery::all; may be null
  std::function<void(const std::string&)> notice;        // receives rare progress, such as a download; null: it is not reported
  std::function<double(std::uint64_t)> rate_factor;      // factor of the learning rate at each step, from 0; null: 1
};

// The command line of this run, in shell syntax, for messages that suggest the next command. "": a plain run.
struct RunCommands {
  std::string resume;   // "--resume RUN" is appended
  std::string explain;  // "--explain-nan RUN" is appended
};

// Folders in addition to the run's own.
struct RunFolders {
  std::string rescue;   // for final files if the run's own folder fails; "": none
  std::string outputs;  // output folder of stages in a run without a folder; "": none
};

struct RunOptions {
  std::string devices;           // replaces run.devices unless empty
  std::string graph;             // the only graph to make and run
  std::string weights;           // a file or URL that replaces the weights in [network]
  StartingPoint from;            // in the main graph; earlier samples are not read
  std::uint64_t most_steps = 0;  // in the main graph; 0: as in the file
  bool hash_input = false;       // stream hashes include the network's input
  bool compare_data = false;     // reads all samples before the first step, to compare them over ranks and with a resumed run
  bool time_layers = false;      // for Replica::layer_times()
  bool only_check = false;       // no Run will be made: reads no sample
  bool only_main = false;        // runs no other graph and writes nothing: for profiling
  bool guard = false;            // GraphOptions::guard
  bool only_data = false;        // in the main graph: makes complete batches, but skips their steps; for profiling
  bool only_steps = false;       // in the main graph: GraphOptions::keeps_batches; for profiling
  bool keeps_to_memory = false;  // refuses a run whose plan exceeds the host's memory, instead of warning
  double report_patience = 10;   // seconds to wait for stages' reports of finished steps
  std::chrono::milliseconds check_period{50};  // interval at which the run's thread checks its graphs
  Group* group = nullptr;                      // the processes of this run; null: only this one
  RunFolders folders;
  ResumeWishes resume;
  RunCommands commands;
  RunHooks hooks;

  int processes() const { return group == nullptr ? 1 : group->size(); }
  // Whether this process has observers and writes files.
  bool is_first() const { return group == nullptr || group->rank() == 0; }
  // Before the first step, when ending would lose nothing.
  void doing(std::string what) const {
    if (hooks.activity != nullptr) hooks.activity->set(std::move(what), false);
  }
};

}  // namespace millrace

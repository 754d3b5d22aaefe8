// What a program that runs a pipeline may ask for.
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

// What is asked of a run that resumes from a checkpoint.
struct ResumeWishes {
  // The folder of a run, for its newest checkpoint, or a checkpoint in it; "": that of the newest run of this name. None: as
  // [checkpoint] resume says.
  std::optional<std::string> run;
  std::vector<std::string> allow_change;  // keys in which the file may differ from that of the checkpoint
  std::optional<double> rate_factor;      // of the learning rate, of a run that was rolled back; none: as the checkpoint says
  std::string notice;                     // a warning that observers are told first; "": none
  bool replays = false;                   // replay() will be called and no Run made; a checkpoint need not be there
};

// What a program hears of the run and has to do with it while it goes on.
struct RunHooks {
  Activity* activity = nullptr;                          // is told what the run does; null: not asked for
  const std::atomic<int>* stop_signal = nullptr;         // a signal that came: the run ends after the steps under way
  const std::atomic<int>* checkpoint_signals = nullptr;  // how many have come that ask for a checkpoint
  std::shared_ptr<RunObserver> observer;                 // listens beside those of the file, and misses nothing; null: none does
  std::function<void(const Graph::Figures&)> on_tick;    // about 20 times a second, with the main graph's figures
  std::function<double(std::uint64_t)> rate_factor;      // of the learning rate at each step, from 0; null: 1
};

// The command that this run is one of, as a shell reads it, for messages that say what to type next. "": as of a plain run.
struct RunCommands {
  std::string resume;   // to which "--resume RUN" is added
  std::string explain;  // to which "--explain-nan RUN" is added
};

// Beside the run's own.
struct RunFolders {
  std::string rescue;   // for what the run's own does not take at the end; "": none
  std::string outputs;  // where stages write in a run without a folder; "": nowhere
};

struct RunOptions {
  std::string devices;           // instead of run.devices, when not empty
  std::string graph;             // only this graph is made and run
  std::string weights;           // a file or a URL to start from, instead of the one that [network] names
  StartingPoint from;            // of the main graph; nothing that comes before is read
  std::uint64_t most_steps = 0;  // of the main graph; 0: as the file says
  bool hash_input = false;       // stream hashes also cover what the network receives
  bool compare_data = false;     // all samples are read before the first step, and compared over ranks and with a resumed run
  bool time_layers = false;      // Replica::layer_times() will be asked
  bool only_check = false;       // no Run will be made: no sample is read
  bool only_main = false;        // no other graph runs, nothing is written: for profiling
  bool guard = false;            // GraphOptions::guard
  bool only_data = false;        // of the main graph: batches are complete, and their steps are left out; for profiling
  bool only_steps = false;       // of the main graph: GraphOptions::keeps_batches; for profiling
  bool keeps_to_memory = false;  // a run whose plan is larger than the host's memory is refused, not warned
  double report_patience = 10;   // seconds for what stages tell of steps that devices have done
  std::chrono::milliseconds look_period{50};  // at which the thread of the run looks at its graphs
  Group* group = nullptr;                     // the processes that run this pipeline together; null: this one alone
  RunFolders folders;
  ResumeWishes resume;
  RunCommands commands;
  RunHooks hooks;

  int processes() const { return group == nullptr ? 1 : group->size(); }
  // Whether this process, among several, has observers and writes files.
  bool is_first() const { return group == nullptr || group->rank() == 0; }
  // Before the first step, when an end would lose nothing.
  void doing(std::string what) const {
    if (hooks.activity != nullptr) hooks.activity->set(std::move(what), false);
  }
};

}  // namespace millrace

// A plan brought to life: one oneTBB node for each stage instance, batches and step tokens as credits.
//
// Order of things: make Workers; make the stages; make a Graph; start(), wait(), as often as wanted (validation runs one epoch at
// a time). Apart from its role, nothing here depends on what a stage does: a Source is driven, a Batcher chooses the circulating
// batches.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "graph/flow_plan.h"
#include "millrace/batch.h"
#include "millrace/error.h"
#include "millrace/stage.h"
#include "millrace/util/telemetry.h"

namespace millrace {

// The threads that run graphs: an arena of oneTBB workers, and I/O threads for sources. Shared by the graphs of a run. A process
// should have one at a time: of several, oneTBB grants all the number of threads that the smallest asked for.
class Workers {
 public:
  Workers(int threads, int io_threads,
          std::vector<int> cores = {});  // cores: where workers and I/O threads may run; empty: anywhere
  ~Workers();
  int threads() const;

 private:
  friend class Graph;
  struct State;
  std::unique_ptr<State> state_;
};

struct GraphOptions {
  std::uint64_t seed = 0;
  std::uint32_t chunk = 0;              // samples a packet; 0: as many as make about 200 us of work, measured as the run goes
  std::uint64_t samples_per_epoch = 0;  // SampleOrder::size()
  std::uint32_t batch_size = 0;         // global; 0: that of the batcher's spec
  std::uint64_t steps_per_epoch = 0;    // whole batches (or the last, incomplete one too, if the batcher keeps it)
  ImageShape image;                     // of the batch's pixels
  ImageShape window;                    // what the network sees
  TargetSpec target;
  std::uint32_t numbers = 0;  // Source::numbers()
  bool has_rows = false;      // Source::has_rows()
  // Where several processes share every batch: the load of each replica of all of them, and which replicas are here. The graph
  // reads the slots of these, as split() deals them out, and nothing else. Epochs, steps and positions are the same for all
  // processes. Empty: this process has the whole batch.
  std::vector<double> load;
  std::uint32_t first_replica = 0, replicas = 0;
  std::int32_t resident_set = -1;  // Batch::resident_set
  // Known bytes lie around each sample's slot and around each batch, and are looked at when a stage sends samples on. A stage
  // that wrote there ends the run.
  bool guard = false;
  // A batch that was complete once goes to the steps again and again as it is: no sample is read any more. For measuring steps.
  bool keeps_batches = false;
  bool has_memory = true;  // false: its batches are not made, and it is never started
  std::function<std::shared_ptr<std::uint8_t[]>(std::size_t bytes)> host_buffer;  // null: ordinary memory
};

// Bytes of one slot of a circulating batch at most: the encoded sample, its image and target, and scratch images. `stages` as
// Graph takes them, or those before the steps alone. What varies in size is not counted before it is read.
std::size_t slot_bytes(const std::vector<std::vector<std::shared_ptr<Stage>>>& stages, const GraphOptions& options);

// The stage whose process() runs on this thread; nulls when none does. Async-signal-safe.
struct RunningStage {
  const char *graph = nullptr, *name = nullptr;
};
RunningStage running_stage() noexcept;

class Graph {
 public:
  // `stages[i]`: the instances of plan.stages[i] - one, or one for each replica. Opened by the caller.
  Graph(const FlowPlan& plan, std::vector<std::vector<std::shared_ptr<Stage>>> stages, const GraphOptions& options,
        Workers& workers);
  ~Graph();  // stops and drains
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  // Called on any thread when the last update of a step was submitted. The next step begins after the callback has returned, if
  // the gate is open. Must not block. Graphs without a stepwise stage never call it.
  using StepDone = std::function<void(std::uint64_t step)>;
  void on_step_done(StepDone callback);

  // What several processes exchange before a step: a batch is complete here, and the stepwise stages have weighed their
  // shares of it, by entry (stage) and instance.
  struct StepReady {
    std::uint64_t step = 0;
    std::uint64_t stream_hash = 0;  // of the samples here
    std::vector<std::vector<std::vector<double>>> weights;
    Ref<Batch> batch = {};  // null where none arrives; holds up the source until it is let go of
  };
  // What they agreed upon. The step begins only if all go on.
  struct StepAgreed {
    bool go_on = true;
    bool leave_out = false;                         // the step is over without having begun: its batch goes home
    std::uint64_t stream_hash = 0;                  // of the global batch
    std::vector<std::vector<double>> weights = {};  // by entry, over all replicas
    std::optional<Error> error = {};                // ends the graph

    void add(std::size_t entry, const std::vector<double>& of_instance);
    static StepAgreed alone(const StepReady& ready);  // what one process agrees upon with itself
  };
  // Called when a step is complete in front of the gate, in any order of steps; must not block. `answer` is called once, on any
  // thread. Without it, each process is alone.
  using Agree = std::function<void(StepReady ready, std::function<void(StepAgreed)> answer)>;
  void on_step_ready(Agree agree);

  // Runs steps [first, last), numbered globally: step s belongs to epoch s / steps_per_epoch. Returns at once.
  void start(std::uint64_t first, std::uint64_t last);
  // Opens the gate for steps below `step`, and closes it for the others. It is open for all until the first call. Returns how
  // many steps have passed or may pass: more than `step` if later steps have passed already. Any thread.
  std::uint64_t set_horizon(std::uint64_t step);
  // hold() closes the gate whatever the horizon is, until resume() or start(). Any thread.
  void hold();
  void resume();
  // No step that has not passed the gate begins any more; what is under way finishes. Async-signal-unsafe; any thread.
  void stop();
  // Until everything has drained. Throws the first error, with graph, stage and sample added; such a graph cannot be started
  // again.
  void wait();

  // What each stage instance, edge and the gate did since the graph was made.
  enum class Threads { io, workers, one };  // that run a stage: I/O threads, any worker, or one worker at a time
  static const char* to_string(Threads threads);
  struct StageFigures {
    std::string name;
    int replica = -1;
    Threads threads = Threads::workers;
    double busy_seconds = 0;     // threads inside process(), until now
    double computing_share = 1;  // of it, in which they computed; the rest they waited for a lock, a disk or a processor
    std::uint64_t packets = 0, samples = 0;
    std::uint64_t bytes = 0;          // of samples, as they came: encoded, or pixels; of a source: as it read them
    std::vector<ServiceBin> service;  // of samples
    Stage::DeviceWork device = {};    // see Stage::device_work()
  };
  struct EdgeFigures {
    std::string from, to;
    std::uint64_t packets = 0;
    double waited_seconds = 0;  // summed over packets: from emit to process
    std::int64_t level = 0;     // packets on the edge now
  };
  struct Figures {
    std::vector<StageFigures> stages;
    std::vector<EdgeFigures> edges;
    double waited_for_data_seconds = 0;    // the gate had a token and no batch
    double waited_for_ranks_seconds = 0;   // it had both, and another rank had no batch
    double waited_for_step_seconds = 0;    // the gate had a batch and no token
    double waited_for_credit_seconds = 0;  // the source had samples to read, and no batch was free
  };
  Figures figures() const;
  std::uint64_t packets_done() const;  // by all stages: it grows as long as something moves

  // What threads work on and what waits, for messages about a graph in which nothing moves. A stage that has returned and goes on
  // elsewhere (Output::Hold), as on a device, is not seen.
  struct Work {
    std::string stage;
    bool reads = false;  // it is a source
    std::uint64_t step = 0;
    double seconds = 0;  // since its thread began with the packet
    std::string sample;  // under way: its file, where that is known, or its number in the packet; empty: not a chunk
  };
  enum class WaitingFor { step, batch, others, run };  // the cause of a wait before the first stepwise stages
  struct StallReport {
    std::vector<Work> work;           // the longest first
    int reading = 0;                  // I/O threads that read, or are about to
    std::vector<EdgeFigures> queued;  // edges with packets that no thread has begun with
    // The step under way has not come home; or no batch is complete; or other processes have not come to the next step, or
    // the run has not opened the gate.
    WaitingFor waiting_for = WaitingFor::batch;
    std::uint64_t step = 0;  // the one that this is about
  };
  StallReport stall_report() const;  // any thread

  std::size_t memory_bound() const;  // bytes of the circulating batches at most, encoded samples and scratch images included

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Starts the graph, and a thread that waits for it and then calls `drained` with the error that has ended it. The graph is not
// started if the system starts no more threads.
std::thread start_apart(Graph& graph, std::uint64_t first, std::uint64_t last,
                        std::function<void(std::optional<Error> error)> drained);

}  // namespace millrace

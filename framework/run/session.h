// A pipeline as it is run: devices, replicas and graphs made from a plan, epochs, validation, and an end in good order.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "config/plan.h"
#include "graph/graph.h"
#include "network/transfer.h"
#include "run/activity.h"
#include "run/agreement.h"
#include "run/batch_hashes.h"
#include "run/best_weights.h"
#include "run/build.h"
#include "run/checkpoints.h"
#include "run/devices.h"
#include "run/meeting.h"
#include "run/observers.h"
#include "run/relay.h"
#include "run/requests.h"
#include "run/run_log.h"
#include "run/usage.h"
#include "run/weights.h"

namespace millrace {

// Where a run begins: a step of an epoch, both from 0.
struct StartingPoint {
  std::uint64_t epoch = 0, step = 0;
};

struct SessionOptions {
  std::string devices;                                   // instead of run.devices, when not empty
  std::string graph;                                     // build and run only this graph
  std::string weights;                                   // a file or a URL to start from, instead of the one that [network] names
  bool hash_input = false;                               // stream hashes also cover what the network receives
  StartingPoint from;                                    // of the main graph; nothing that comes before is read
  std::uint64_t most_steps = 0;                          // of the main graph; 0: as the file says
  bool time_layers = false;                              // Replica::layer_times() will be asked
  bool only_check = false;                               // run() will not be called: no sample is read
  bool only_main = false;                                // no other graph runs, nothing is written: for profiling
  std::function<void(const Graph::Figures&)> on_tick;    // about 20 times a second, with the main graph's figures
  const std::atomic<int>* stop_signal = nullptr;         // a signal that came: the run ends after the steps under way
  const std::atomic<int>* checkpoint_signals = nullptr;  // how many have come that ask for a checkpoint
  // A folder of a run to go on with, behind its newest checkpoint; "": that of the newest run of this name. None: as [checkpoint]
  // resume says.
  std::optional<std::string> resume;
  // Of a run that goes back to a checkpoint: the learning rate is multiplied by this instead of what the checkpoint says.
  std::optional<double> resumed_rate_factor;
  std::string notice;                     // a warning that observers are told first; "": none
  bool replays = false;                   // replay() will be called and not run(); a checkpoint need not be there
  std::vector<std::string> allow_change;  // keys in which the file may differ from that of the checkpoint
  // The command that this run is one of, as a shell reads it, for messages that say what to type next. "--resume RUN" behind the
  // first one goes on with the run, "--explain-nan RUN" behind the second one does its steps again. "": as of a plain run.
  std::string command, command_to_explain;
  std::string rescue;                                // a folder for what the run's own does not take at the end; "": none
  Activity* activity = nullptr;                      // is told what the session does; null: nobody asks
  std::function<double(std::uint64_t)> rate_factor;  // of the learning rate at each step, from 0; null: 1
  std::shared_ptr<RunObserver> observer;             // listens beside those of the file, and misses nothing; null: none does
  Group* group = nullptr;                            // the processes that run this pipeline together; null: this one alone
  bool guard = false;                                // GraphOptions::guard
  int processes = 1;                                 // so many will run it: what they cannot do is refused, --check included
  bool keeps_to_memory = false;                      // a run whose plan is larger than the host's memory is refused, not warned
  double report_patience = 10;                       // seconds for what stages tell of steps that devices have done
};

// What a run ended with.
struct RunResult {
  double epoch = 0;              // of the main graph, done
  std::uint64_t step = 0;        // of the main graph, done
  int signal = 0;                // that stopped it, or 0
  bool stopped = false;          // before its last step, because a signal, an observer or the program asked for it
  std::string weights_file;      // written at the end, or empty
  std::string go_on;             // the command that goes on where the run stopped; "": it has no checkpoint
  std::string folder;            // of the run, or empty
  RunLog::Sums last_validation;  // of the last pass that was not training
};

// What became of the best weights.
struct BestSaved {
  bool waits = false;  // the disk did not take them: they are tried again
  std::string file;    // written; "": none is, or this process writes none
};

class Session {
 public:
  // Makes everything, in an order in which mistakes are found before anything expensive is done. Sources are opened (they list
  // their samples). No sample is read but a few label images (run/label_values.h), and all where a loss asks for numbers that
  // depend on the data (run/median_weights.h). `pipeline` and `registry` must outlive the session.
  Session(const Pipeline& pipeline, const Registry& registry, SessionOptions options);
  ~Session();

  RunResult run();

  // After run() has thrown: whether another session may go on in this one's place, as [run] on_nan = "rollback" says, and with
  // which options: from a checkpoint, with a smaller rate. REQUIRES, of go_back(): may_go_back().
  bool may_go_back() const;
  SessionOptions go_back() const;

  // Before run(), of a run that goes on behind a checkpoint: reads the batches of the last `most` steps before it once more and
  // compares their hashes with those in the checkpoint, which holds BatchHashes::kMost at most. No step is done, and nothing is
  // written. Returns a line that says what was compared; "": the run begins. Throws Error(usage) that names the first step whose
  // batch differs. Of several processes each reads its slots; the sums over all of them are compared, by each.
  std::string verify(std::uint64_t most);

  // Instead of run(): the steps of the main graph as run() would do them, but nothing is written and observers are told nothing.
  // From step `from` on, `look` sees each batch when all updates before it are done, and says whether its step shall be done.
  // Throws what it throws.
  void replay(std::uint64_t from, const std::function<bool(Batch& batch)>& look);
  // The first step whose numbers are not finite, and where the run has to end for it.
  std::optional<WrongNumber> wrong_number() const { return log_->numbers().trouble(); }
  const std::optional<FoundCheckpoint>& resumed() const { return resumed_; }  // its tensors may have been moved away
  std::uint64_t first_step() const { return first_step_; }                    // of the main graph

  // For other threads of the program: what they ask of the run. Valid while the session lives.
  RunControl& control() { return control_; }

  // One item of what the run will hold in memory, at most.
  struct MemoryItem {
    std::string where;  // "train.batch", "cpu:0", "program"
    std::string what;
    std::size_t bytes = 0;
    std::string device = {};  // whose own memory it is; "": the host's
  };
  std::vector<MemoryItem> memory_bound() const;

  const Pipeline& pipeline() const { return pipeline_; }
  const std::vector<std::unique_ptr<GraphBuild>>& builds() const { return builds_; }
  const OpenDevices& devices() const { return devices_; }
  const std::vector<std::unique_ptr<Replica>>& replicas() const { return replicas_; }
  Precision precision() const { return precision_; }
  const WeightsSource& weights_source() const { return weights_from_; }  // its file is "" where all parameters begin new
  std::uint64_t total_steps() const { return total_steps_; }
  int data_threads() const;
  // The size of batches where the file leaves it to the run, and why it is no larger: a line; "" where the file says it.
  const std::string& batch_choice() const { return batch_choice_; }
  // Makes batches and graphs, as run() does first. Starts nothing.
  void prepare();

 private:
  void choose_weights();
  void warn_of_frozen();
  void read_weights();
  void choose_devices();
  void build_graphs();
  void warn_of_graphs();
  void warn_of_no_effect();
  void compare_usage();
  Usage usage_as_run() const;
  using Replicas = std::vector<std::unique_ptr<Replica>>;
  void count_median_weights();
  void compile();  // the network, where there is one, for the batches that the file asks for or that fit
  CompileOptions compile_options();
  Replicas compiled(const CompileOptions& shared) const;
  void check_batches(const CompileRequest& request) const;
  void limit_batch(GraphBuild& build) const;
  void choose_batch(const CompileOptions& shared);
  void keep_batch();
  void set_batch(std::uint32_t size);
  bool try_batch(std::uint32_t size, const CompileOptions& shared);
  std::uint32_t agree_on_batch(std::uint32_t size) const;
  void find_memory_limits();
  std::vector<MemoryItem> planned_memory(const Replicas& replicas) const;
  std::vector<MemoryItem> planned_copies(const Replicas& replicas) const;
  std::vector<MemoryItem> with_program(const Replicas& replicas) const;
  std::string lack_of_memory(const Replicas& replicas) const;
  std::size_t host_memory_of_all() const;
  void warn_of_limit();
  void warn_of_memory();
  void keep_to_memory() const;
  Error with_memory(const Error& error, const std::string& what) const;
  void make();  // what the constructor does
  std::uint32_t slots_here(const GraphBuild& build) const;
  GraphOptions graph_options(std::size_t graph) const;
  Value resolved() const;  // Pipeline::resolved with what was chosen
  void start_replicas();
  void place_steps();
  std::optional<std::uint64_t> step_with_other_batches();
  void make_observers();
  // session_processes.cpp
  void check_processes() const;
  void make_agreements();
  void share_reports();
  void receive_reports();
  void leave(const std::string& why);
  bool is_first() const { return options_.group == nullptr || options_.group->rank() == 0; }
  // session_resume.cpp
  void check_name() const;
  // "quickstart/2026-01-01T00-00-00": below run.folder; of a run that lies elsewhere, its last two names.
  std::filesystem::path place_name(const std::filesystem::path& run) const;
  bool has_checkpoints() const;
  std::filesystem::path checkpoint_folder_of(const std::filesystem::path& run) const;
  std::filesystem::path checkpoint_folder_of(const std::filesystem::path& run, const std::string& folder) const;
  Storage* checkpoint_storage() const;  // null: they lie in a folder
  std::unique_ptr<CheckpointPlace> checkpoint_place_of(const std::filesystem::path& run) const;
  struct FoundRuns {
    std::vector<std::filesystem::path> runs;    // the newest first
    std::vector<std::filesystem::path> others;  // folders beside them that have a name of a user's
  };
  FoundRuns runs_with_checkpoints() const;
  std::string hidden_by_name(const std::vector<std::filesystem::path>& others, std::uint64_t done) const;
  struct NamedRun {  // by --resume; empty: none is
    std::filesystem::path run;
    std::string checkpoint;  // "step-000001200"; "": the newest one
  };
  NamedRun named_run() const;
  bool leaves_a_course() const;
  bool names_checkpoint() const { return !named_run().checkpoint.empty(); }
  const char* asked() const;  // what asks for a checkpoint to go on behind
  void check_checkpoint_folder() const;
  void find_checkpoint();
  void choose_checkpoint();
  void begin_or_refuse(const NamedRun& named, const std::vector<std::string>& passed_over, const std::string& hidden);
  std::string checkpoints_elsewhere(const std::filesystem::path& named) const;
  std::filesystem::path checkpoints_on_record(const std::filesystem::path& run, const std::string& folder) const;
  void share_choice(bool failed);
  // session_checkpoint.cpp
  void read_network_text();
  std::map<std::string, RunState::Data> data() const;
  void check_changes() const;
  std::size_t checkpoint_bytes(const Replicas& replicas) const;  // of the values that one holds
  std::filesystem::path run_folder() const;
  void make_checkpoints(const std::filesystem::path& run);
  void take_over(const std::filesystem::path& run);
  Checkpoints::Fetch capture(std::vector<NamedTensor>& tensors);
  std::vector<std::vector<float>> copies_of(const std::string& state, int parameter);
  void checkpoint(RunState state, bool best, Checkpoints::Clock::time_point since);
  void restore_replicas();
  const NamedTensor* saved_tensor(const std::map<std::string, const NamedTensor*>& tensors, const Parameter& parameter,
                                  const std::string& state, std::size_t replica) const;
  std::optional<Weights> evaluated_weights(const Checkpoint& from) const;
  void restore_stages();
  // session_verify.cpp
  void watch_gates();
  std::vector<RunState::BatchHash> last_batches(std::uint64_t done);
  void restore_batches();
  std::vector<RunState::BatchHash> read_batches(std::uint64_t first, std::uint64_t last);
  // session_numbers.cpp
  void check_on_nan() const;
  std::string newest_checkpoint_path() const;
  std::string newest_checkpoint_words() const;
  std::string point_latest_back() const;
  std::string command_with(const std::string& command, const char* option, const std::filesystem::path& folder) const;
  Error with_advice(const Error& error) const;
  Error with_checkpoint(const Error& error) const;
  void exchange_evaluated();
  std::map<std::string, std::string> weights_metadata() const;
  void with_weights(const std::function<void(WeightsFile& weights)>& use, std::map<std::string, std::string> more = {});
  void write_finite(const WeightsFile& weights, const std::string& path) const;
  std::string save_weights(const std::string& name);  // into the run's folder; "" when there is none
  struct BestLeft;
  BestSaved save_best(const std::optional<BestWeights>& found);
  std::string write_best(const WeightsFile& weights, const std::string& path) const;
  void know_checkpoint(const std::filesystem::path& path);
  void keep_best(BestLeft left);
  void mend_best_weights(CheckpointPlace& place, const std::filesystem::path& run);
  std::string put_best_back(CheckpointPlace& place, const std::string& path, const BestWeights& known);
  void rescue_weights(const WeightsFile& weights, const std::string& name, const std::string& what, const std::string& cause);
  void save_results(RunResult& result);
  std::filesystem::path rescue_folder(const std::filesystem::path& run) const;
  RunResult train();
  void end_observers(RunEnd end);
  DataContext shared_context() const;
  void doing(std::string what) const;  // before the first step

  const Pipeline& pipeline_;
  const Registry& registry_;
  SessionOptions options_;
  // In this order, since observers may ask and devices may warn until they are gone.
  Requests requests_{[this](RunEvent event) { observers_.tell(std::move(event)); }};
  RunControl& control_ = requests_.control("the program");
  Observers observers_;
  std::unique_ptr<Reporter> reporter_;  // of another rank than 0
  std::unique_ptr<RunLog> log_;
  std::unique_ptr<Checkpoints> checkpoints_;  // of rank 0, in a run that writes some
  std::optional<FoundCheckpoint> resumed_;    // what the run goes on behind; none: it begins
  std::filesystem::path resumed_run_;         // its folder, known to rank 0
  mutable std::mutex known_mutex_;
  std::string known_checkpoint_;  // the newest that this process has seen, for when its storage does not answer
  std::string latest_then_;       // what `latest` named when that was chosen
  std::string network_text_;      // the network's file with what it extends; of a run with checkpoints
  struct BestLeft {
    BestWeights best;
    WeightsFile weights;
    std::string cause;
  };
  std::optional<BestLeft> best_left_;  // the best weights, which the disk did not take yet
  bool told_of_best_ = false;
  std::filesystem::path rescued_;  // the last checkpoint, where its own place did not take it; "": it did
  std::string not_saved_;          // at the end: what the run's folder did not take, and where it is instead
  WeightsSource weights_from_;
  Weights weights_;                              // to start from, until they are in the replicas; empty: initialisers
  std::map<std::string, std::string> metadata_;  // of the file of weights
  std::optional<Usage> usage_;                   // of this run, for the weights that it saves; precision and batch as written
  OpenDevices devices_;                          // devices before replicas: destroyed after them
  std::unique_ptr<Meeting> meeting_;             // of the replicas
  Precision precision_ = Precision::fp32;
  Replicas replicas_;
  std::string evaluated_;            // CompileRequest::evaluated
  std::vector<std::string> copies_;  // CompileRequest::copies
  std::vector<std::unique_ptr<GraphBuild>> builds_;
  std::vector<double> median_weights_;       // GraphBuild::set_median_weights()
  std::vector<std::int32_t> resident_sets_;  // of each build: which one devices keep, or -1
  // While a batch's size is chosen: how much may be used, and why the size that was tried last does not fit.
  std::size_t host_limit_ = 0;
  std::vector<std::size_t> device_limits_;
  std::string lack_, batch_choice_;
  std::uint32_t kept_batch_ = 0;  // of the run that goes on; 0: none is open
  std::optional<Error> refused_;
  std::uint64_t first_step_ = 0, total_steps_ = 0;  // of the main graph: [first, total), of which schedules know
  std::uint64_t last_step_ = 0;                     // one past the last step that is done: total_steps_, or stop.max_steps
  BatchHashes batch_hashes_;                        // of the main graph, here; outlives the graphs
  std::unique_ptr<Workers> workers_;
  std::vector<std::unique_ptr<Graph>> graphs_;  // one for each build
  std::vector<std::unique_ptr<Agreement>>
      agreements_;                            // one for each graph in a run of several processes; destroyed before graphs
  std::unique_ptr<ReportReceiver> receiver_;  // of rank 0
};

}  // namespace millrace

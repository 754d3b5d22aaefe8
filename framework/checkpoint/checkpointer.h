// The checkpoints of a run: captures its state, passes it to the writing thread, and restores it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/batch_hashes.h"
#include "checkpoint/changes.h"
#include "checkpoint/checkpoint_writer.h"
#include "checkpoint/resume.h"
#include "graph/graph.h"
#include "millrace/observer.h"
#include "millrace/stage.h"
#include "weight_files/replica_view.h"
#include "weight_files/weights_writer.h"

namespace millrace {

// The stages of the main graph that may save state, by name.
struct SavedStage {
  std::string name;
  std::vector<std::shared_ptr<Stage>> instances;  // each is restored from the state of the first
};
using SavedStages = std::vector<SavedStage>;

// The run that is restored: its title for messages, and RunRecord::versions.
struct RestoredInto {
  std::string pipeline;
  Versions versions;
};

// Restores a checkpoint into started replicas and stages. Warns if versions or the number of replicas changed. The tensors are
// moved away.
void restore_run(FoundCheckpoint& from, const ReplicaView& view, const SavedStages& stages, const RestoredInto& into,
                 const std::function<void(std::string text)>& warn);

// Every process of a run has one, since all capture together; rank 0 writes. Used by one thread, except newest(), which is
// thread-safe, and the hash in front of the gate (watch()). Destroyed before the replicas and after the graphs.
class Checkpointer {
 public:
  using Clock = CheckpointWriter::Clock;
  // The parts common to all checkpoints of the run, and their sources. All of it outlives the Checkpointer.
  struct Run {
    const Pipeline& pipeline;
    const RunPlaces& places;
    SavedStages stages;
    std::uint64_t steps_per_epoch = 1;
    std::map<std::string, std::string> metadata;  // names of the weights' classes
    RunRecord record;
  };
  // Receives events, on any thread.
  struct Listener {
    std::function<void(std::string text)> warn;
    std::function<void(CheckpointEvent event)> report;
    std::function<void()> sync;  // flushes earlier events to the disk before a later checkpoint becomes the newest
  };
  Checkpointer(Run run, const ReplicaView& replicas, WeightsWriter& weights, Listener listener);
  ~Checkpointer();  // waits until the queued checkpoint is written

  // Called on rank 0: locks the folder of `run` and starts the thread. A resumed run continues after `from`; null: a new run.
  // `rescue`: folder for the last checkpoint if its own place fails; "": none. Throws if another process has resumed the run
  // meanwhile, and the errors of CheckpointWriter.
  void open(const std::filesystem::path& run, ResumePoint* from, const std::filesystem::path& rescue);
  // restore_run(), and the hashes of the last batches if `first_step` is the checkpoint's.
  void restore(FoundCheckpoint& from, std::uint64_t first_step);
  // Hashes each batch in front of the main graph's gate, before `next`; null: there is one process.
  Graph::Agree watch(Graph::Agree next);

  // Training has paused since `since` and continues when this returns. All processes call it.
  void save(SavedState state, bool is_best, Clock::time_point since);
  bool is_time() { return writer_ && writer_->is_time(); }      // on rank 0, see CheckpointWriter
  bool backs_off() { return writer_ && writer_->backs_off(); }  // on rank 0
  // Waits until none is being written.
  void wait() {
    if (writer_) writer_->wait();
  }
  // Like wait(), at the end of the run. Throws as CheckpointWriter::finish() does if the last or best one is not written.
  void finish();
  // Waits until a checkpoint in progress is reported, and retries a kept best one. Returns why that was not written, and where
  // it is instead; else "".
  std::string stop();
  bool writes() const { return writer_ != nullptr; }

  // The newest checkpoint or, if its storage does not answer, the newest known. "" if the run has none, or not on rank 0.
  std::string newest() const;
  // Points `latest` to the checkpoint before `step` and returns it; keeps `latest` if there is none.
  std::string point_before(std::uint64_t step);
  // The rescue folder of the last checkpoint; "" if it is in its own place.
  const std::filesystem::path& rescued() const { return rescued_; }

 private:
  void know(const std::filesystem::path& path);
  void take_over(ResumePoint& from);
  void export_best(const Checkpoint* best);  // null: retries those that failed

  const Run run_;
  const ReplicaView replicas_;
  WeightsWriter& weights_;
  const Listener listener_;
  BatchHashes batches_;           // the main graph's, in this process
  std::filesystem::path folder_;  // the run's; "" before open()
  std::filesystem::path rescued_;
  mutable std::mutex known_mutex_;
  std::string known_;                         // guarded by known_mutex_
  std::unique_ptr<CheckpointWriter> writer_;  // on rank 0; its thread calls back here
};

// For a message: "the newest checkpoint is '...'". Null: the run has no checkpoints.
std::string newest_words(const Checkpointer* checkpointer);

}  // namespace millrace

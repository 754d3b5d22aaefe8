// The checkpoints of a run: captures its state, hands it to the thread that writes, and restores it.
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

// The stages of the main graph that may save something, by name.
struct SavedStage {
  std::string name;
  std::vector<std::shared_ptr<Stage>> instances;  // each gets what the first one has saved
};
using SavedStages = std::vector<SavedStage>;

// The run that a checkpoint is restored into: its title, for messages, and RunRecord::versions.
struct RestoredInto {
  std::string pipeline;
  Versions versions;
};

// Writes the values of a checkpoint into replicas that have started, and what stages have saved into these. Warns of versions
// and replicas that are others now. The tensors are moved away.
void restore_run(FoundCheckpoint& from, const ReplicaView& view, const SavedStages& stages, const RestoredInto& into,
                 const std::function<void(std::string text)>& warn);

// Every process of a run has one, since all capture together; that of rank 0 writes. One thread uses it, but for newest(), which
// is thread-safe, and the gate that watch() puts a hash before. It goes before the replicas, and after the graphs.
class Checkpointer {
 public:
  using Clock = CheckpointWriter::Clock;
  // What is the same in all checkpoints of the run, and where its parts come from. All of it outlives the Checkpointer.
  struct Run {
    const Pipeline& pipeline;
    const RunPlaces& places;
    SavedStages stages;
    std::uint64_t steps_per_epoch = 1;
    std::map<std::string, std::string> metadata;  // names of the weights' classes
    RunRecord record;
  };
  // Where it tells what happens; on any thread.
  struct Listener {
    std::function<void(std::string text)> warn;
    std::function<void(CheckpointEvent event)> tell;
    std::function<void()> sync;  // brings what was told onto the disk, before a checkpoint after it becomes the newest
  };
  Checkpointer(Run run, const ReplicaView& replicas, WeightsWriter& weights, Listener listener);
  ~Checkpointer();  // when what was handed over is written

  // Called on rank 0: locks the folder of `run` and starts the thread. The files of a run that resumes become those after
  // `from`; null: a run begins. `rescue`: a folder for the last checkpoint if its own place does not take it; "": none. Throws
  // where another process has resumed the run since the choice, and what CheckpointWriter throws.
  void open(const std::filesystem::path& run, ResumePoint* from, const std::filesystem::path& rescue);
  // As restore_run(), and the hashes of the last batches, where `first_step` is the checkpoint's.
  void restore(FoundCheckpoint& from, std::uint64_t first_step);
  // Hashes each batch in front of the main graph's gate, before `next`; null: the process is alone.
  Graph::Agree watch(Graph::Agree next);

  // Training stands still since `since`, and goes on when this returns. All processes call it.
  void save(SavedState state, bool is_best, Clock::time_point since);
  bool is_time() { return writer_ && writer_->is_time(); }      // of rank 0: see CheckpointWriter
  bool backs_off() { return writer_ && writer_->backs_off(); }  // of rank 0
  // Until none is being written.
  void wait() {
    if (writer_) writer_->wait();
  }
  // As wait(), at the end of the run. Throws as CheckpointWriter::finish() when the last one or the best one is not written.
  void finish();
  // What is being written is told before this returns, and a best one that waits is tried once more. Returns why that is not
  // written, and where it is instead; "": it is, or none waits.
  std::string stop();
  bool writes() const { return writer_ != nullptr; }

  // The newest checkpoint; where its storage does not answer, the newest that is known. "": the run has none, or this is not rank
  // 0.
  std::string newest() const;
  // `latest` names the one before `step`, which is returned, where there is one; else it stays.
  std::string point_before(std::uint64_t step);
  const std::filesystem::path& rescued() const { return rescued_; }  // where the last one is instead; "": it is in its own place

 private:
  void know(const std::filesystem::path& path);
  void take_over(ResumePoint& from);
  void export_best(const Checkpoint* best);  // null: tries those that wait again

  const Run run_;
  const ReplicaView replicas_;
  WeightsWriter& weights_;
  const Listener listener_;
  BatchHashes batches_;           // of the main graph, here
  std::filesystem::path folder_;  // of the run; "": open() was not called
  std::filesystem::path rescued_;
  mutable std::mutex known_mutex_;
  std::string known_;                         // guarded by known_mutex_
  std::unique_ptr<CheckpointWriter> writer_;  // of rank 0; its thread calls back here
};

// For a message: "the newest checkpoint is '...'". Null: the run has none.
std::string newest_words(const Checkpointer* checkpointer);

}  // namespace millrace

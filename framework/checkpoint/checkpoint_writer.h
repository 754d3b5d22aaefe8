// Writes the checkpoints of a run on its own thread while training continues.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "checkpoint/checkpoint.h"
#include "checkpoint/checkpoint_place.h"
#include "millrace/error.h"
#include "millrace/observer.h"

namespace millrace {

// Used by one thread.
class CheckpointWriter {
 public:
  using Clock = std::chrono::steady_clock;
  struct Setting {
    std::filesystem::path folder;
    Storage* storage = nullptr;       // storage of the URL `folder`; null if it is a local folder
    std::filesystem::path lock = {};  // with a storage: the local folder whose lock marks the run as having a writer
    bool resumes = false;             // from an existing checkpoint
    std::size_t keep = 3;
    RetentionPeriod keep_every = {};    // the first one of each period is kept for ever; null keeps none
    std::filesystem::path rescue = {};  // where the last checkpoint goes if `folder` fails; "": nowhere
    double seconds = 0;                 // between checkpoints; 0: not by time
    std::function<void()> sync = {};    // flushes files that a checkpoint relies on before it becomes the newest
    // Called after each attempt on the writing thread. `best`: the checkpoint if it is the best, else null.
    std::function<void(const Checkpoint* best)> attempted = {};
    std::function<void(CheckpointEvent)> report;
    std::function<void(std::string)> warn;
  };
  // Makes and locks the folder, so that only one process resumes a run. Throws Error(usage) naming it, or the error of an
  // unwritable storage.
  explicit CheckpointWriter(Setting setting);
  CheckpointWriter(const CheckpointWriter&) = delete;
  CheckpointWriter& operator=(const CheckpointWriter&) = delete;
  ~CheckpointWriter();  // waits until the queued checkpoint is written

  // True if the interval between checkpoints has passed and none is being written; restarts the interval.
  bool is_time();
  // Whether to skip this attempt: after failures one, then three, then seven are skipped each time. Called for each attempt.
  bool backs_off();

  // Waits until none is being written. Frees the memory of the last one, unless it is a best one to be retried.
  void wait();
  // Training has paused since `since` and continues when this returns. Waits as wait() does. `fetch` fills tensors that have no
  // values yet; it runs on the writing thread and is destroyed before the next wait() returns.
  using Fetch = std::function<void(std::vector<NamedTensor>& tensors)>;
  void write(Checkpoint checkpoint, bool best, Clock::time_point since, Fetch fetch = {});
  // If a best checkpoint fails, it is kept and retried before the next one is written. A later best one replaces it.

  // Waits, retries a kept checkpoint once, and throws Error(run), or Error(unreachable) if a server did not answer, when the
  // last or best one is not written. Those are then written to the rescue folder.
  void finish();
  // Like finish(), for the best one of a failing run. Returns why it was not written, and where it is instead; "" if none is
  // kept.
  std::string finish_best();
  // The rescue folder of the last checkpoint, if finish() used it; else "".
  const std::filesystem::path& rescued() const { return rescued_; }

 private:
  struct Job {
    Checkpoint checkpoint;
    bool best = false;
    double stood_still_seconds = 0;
    Fetch fetch = {};
  };
  void lock_folder(const std::filesystem::path& folder);
  void check_folder();
  using SharedJob = std::shared_ptr<const Job>;
  void run();
  void wait_until_written();
  bool fetch(Job& job);
  void attempt(const SharedJob& job);
  bool try_best_again();
  void write(const Job& job);
  void tidy(const std::string& name);
  void fail_by(const Error& error, const SharedJob& job);
  void report_attempted(const Job& job);
  std::string rescue(const char* pointer, const Checkpoint& checkpoint);

  const Setting setting_;
  const std::unique_ptr<CheckpointPlace> place_;
  int folder_ = -1;         // open and locked until the folder is moved away
  Clock::time_point next_;  // when the interval ends
  int left_out_ = 0;        // attempts skipped since the last one
  std::filesystem::path rescued_;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::shared_ptr<Job> job_;  // until it is written
  bool closing_ = false;
  int failures_ = 0;                   // failed attempts since the last success
  Error failure_{ErrorKind::run, {}};  // error of the last failed attempt
  // Owned by the thread while there is a job, else by the caller.
  bool warned_of_old_ = false;         // warned that old checkpoints cannot be removed
  std::uint64_t newest_ = 0;           // steps done in the newest checkpoint written here
  std::optional<std::uint64_t> lost_;  // steps done in the last one, if it was not written
  SharedJob refused_;                  // that checkpoint, if the disk failed and a rescue folder exists
  SharedJob best_left_;                // the best one, if the disk failed so far
  std::thread thread_;
};

}  // namespace millrace

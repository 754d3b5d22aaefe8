// Writes the checkpoints of a run on a thread of its own while training goes on.
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

// One thread calls it.
class CheckpointWriter {
 public:
  using Clock = std::chrono::steady_clock;
  struct Setting {
    std::filesystem::path folder;
    Storage* storage = nullptr;       // of which `folder` is a URL; null: it is a folder of this machine
    std::filesystem::path lock = {};  // then the folder of this machine that says that the run has a writer
    bool resumes = false;             // from one that is there
    std::size_t keep = 3;
    RetentionPeriod keep_every = {};    // the first one of each period is kept for ever; null: none is
    std::filesystem::path rescue = {};  // where the last checkpoint goes when `folder` does not take it; "": nowhere
    double seconds = 0;                 // from one checkpoint to the next; 0: not by time
    std::function<void()> sync = {};    // brings what a checkpoint stands behind onto the disk, before it becomes the newest
    // Called after each attempt to write one, on the thread that writes; `best`: the best one, or null where it is not that.
    std::function<void(const Checkpoint* best)> attempted = {};
    std::function<void(CheckpointEvent)> tell;
    std::function<void(std::string)> warn;
  };
  // Makes the folder, and locks it: of two processes that resume one run the second is refused. Throws Error(usage) naming
  // it, and what a storage throws that takes nothing.
  explicit CheckpointWriter(Setting setting);
  CheckpointWriter(const CheckpointWriter&) = delete;
  CheckpointWriter& operator=(const CheckpointWriter&) = delete;
  ~CheckpointWriter();  // when what was handed over is written

  // The time from one checkpoint to the next is over, and none is being written. Then the time begins again.
  bool is_time();
  // After attempts that failed the next ones are left out: one, then three, then seven each time. Called for each of them.
  bool backs_off();

  // Until none is being written. Then the memory of the last one is free, but for a best one that waits.
  void wait();
  // Training has stood still since `since`. It goes on when this returns. Waits as wait() does. `fetch` brings the values of
  // tensors that have none yet; it is called on the thread that writes, and gone before the next wait() returns.
  using Fetch = std::function<void(std::vector<NamedTensor>& tensors)>;
  void write(Checkpoint checkpoint, bool best, Clock::time_point since, Fetch fetch = {});
  // A best one that the disk did not take waits until the next one is written, and is tried again before that. A later best one
  // takes its place.

  // Waits, tries once more what waits, and throws Error(run), or Error(unreachable) where a server did not answer, when the last
  // one or the best one is not written. What the disk or the storage did not take is then written for its rescue.
  void finish();
  // The same for the best one alone, of a run that fails. Returns why it is not written, and where it is instead; "": none waits.
  std::string finish_best();
  // Where finish() has written the last one for its rescue; "": nowhere.
  const std::filesystem::path& rescued() const { return rescued_; }

 private:
  struct Job {
    Checkpoint checkpoint;
    bool best = false;
    double stood_still_seconds = 0;
    Fetch fetch = {};
  };
  void lock_folder(const std::filesystem::path& folder);
  void look_at_folder();
  using SharedJob = std::shared_ptr<const Job>;
  void run();
  void wait_until_written();
  bool fetch(Job& job);
  void attempt(const SharedJob& job);
  bool try_best_again();
  void write(const Job& job);
  void tidy(const std::string& name);
  void fail_by(const Error& error, const SharedJob& job);
  void tell_attempted(const Job& job);
  std::string rescue(const char* pointer, const Checkpoint& checkpoint);

  const Setting setting_;
  const std::unique_ptr<CheckpointPlace> place_;
  int folder_ = -1;         // open, and locked, until somebody moves it away
  Clock::time_point next_;  // by time
  int left_out_ = 0;        // since the last attempt
  std::filesystem::path rescued_;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::shared_ptr<Job> job_;  // until it is written
  bool closing_ = false;
  int failures_ = 0;                   // of the disk or the storage, since the last success
  Error failure_{ErrorKind::run, {}};  // of the last attempt that failed
  // The thread's while there is a job, else the caller's.
  bool told_of_old_ones_ = false;      // that they stay
  std::uint64_t newest_ = 0;           // steps done in the newest one that this has written
  std::optional<std::uint64_t> lost_;  // steps done in the last one, when it is not written
  SharedJob refused_;                  // that one, where the disk did not take it and there is another place for it
  SharedJob best_left_;                // the best one, which the disk did not take yet
  std::thread thread_;
};

}  // namespace millrace

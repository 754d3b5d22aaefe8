// The files of weights that a run writes: the last ones, those that somebody asks for, and the best ones.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "millrace/error.h"
#include "weight_files/best_weights.h"
#include "weight_files/replica_view.h"
#include "weight_files/weights.h"

namespace millrace {

// The thread of the run calls it. That which writes checkpoints may call export_best() and retry_best() while the other one
// saves.
//
// Best weights that the disk does not take wait in memory, until they can be written or better ones are found.
class WeightsWriter {
 public:
  using Metadata = std::map<std::string, std::string>;
  struct Setting {
    std::filesystem::path folder;  // of the run; "": this process writes nothing
    std::filesystem::path rescue;  // a folder for what that one does not take at the end; "": a new one among temporary files
    bool writes = true;            // some process of the run writes weights
    bool tells_exports = false;    // export_best() tells what it has written, as the others do; else its checkpoint says it
    std::function<Metadata()> metadata;
    std::function<Error(const Error& error)> advise;  // adds what to do about values that are not finite
    std::function<void(std::string text)> warn;
    // Tells of best weights that are written, or why they are not ("": they are).
    std::function<void(const Best& best, const std::string& file, const std::string& cause)> tell_best;
  };
  WeightsWriter(const ReplicaView& view, Setting setting) : view_(view), setting_(std::move(setting)) {}

  // Writes the weights that other graphs see, from the replicas. All processes call it. Returns the file; "": this process writes
  // none. Throws Error(storage), and Error(run) for values that are not finite.
  std::string save(const std::string& name);
  // save() at the end of a run, after `step`. Files that the run's folder does not take go to the rescue; lost() says so.
  std::string save_last(std::uint64_t step);

  // In a run without checkpoints: writes the best weights from the replicas. All processes call it.
  void save_best(const Best& best);
  // In a run with checkpoints: writes the best weights from values of a checkpoint. Their metadata are those of the last
  // prepare_export(), which the thread of the run calls.
  void prepare_export() { export_metadata_ = setting_.metadata(); }
  void export_best(const Best& best, const WeightsFile::Fetch& values);
  std::filesystem::path best_path() const;
  std::optional<Best> best_there() const { return best_in(best_path()); }  // what best.safetensors says
  // In a resumed run: makes best.safetensors the best that its checkpoint knows. `values`: of that one; none: they are nowhere.
  // Best weights of an abandoned branch, or by another figure than run.best (`figure`; "": it names none), are set aside.
  void resume_best(const std::string& figure, const std::optional<Best>& known, const std::optional<WeightsFile::Fetch>& values,
                   bool rewinds_history);
  void retry_best();  // tries those that wait again
  // For the last time: what is not written then is lost(). Returns what this call adds to that. REQUIRES: no checkpoint is being
  // written.
  std::string finish_best();

  const std::string& lost() const { return lost_; }  // what is not written, why, and where it is instead; "": all is

 private:
  struct Waiting {
    Best best;
    WeightsFile weights;
    std::string cause;
  };
  void with_weights(const std::function<void(WeightsFile& weights)>& use, const Metadata& more = {});
  void exchange();
  void write(const WeightsFile& weights, const std::filesystem::path& path) const;
  bool write_best(const Best& best, WeightsFile weights);
  // Returns what it adds to lost().
  std::string rescue(const WeightsFile& weights, const std::string& name, const std::string& what, const std::string& cause);

  const ReplicaView view_;
  const Setting setting_;
  Metadata export_metadata_;
  std::optional<Waiting> waiting_;
  bool told_ = false;             // that best weights wait
  std::filesystem::path rescue_;  // that was used; "": none yet
  std::string lost_;
};

}  // namespace millrace

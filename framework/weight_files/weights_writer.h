// The files of weights that a run writes: the last ones, requested ones, and the best ones.
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

// Used by the run's thread. The thread that writes checkpoints may call export_best() and retry_best() while the other one
// saves.
//
// If the disk fails, the best weights are kept in memory until they can be written or better ones are found.
class WeightsWriter {
 public:
  using Metadata = std::map<std::string, std::string>;
  struct Setting {
    std::filesystem::path folder;  // the run's; "": this process writes nothing
    std::filesystem::path rescue;  // a folder for final files if that one fails; "": a new temporary folder
    bool writes = true;            // whether any process of the run writes weights
    bool reports_exports = false;  // whether export_best() reports its files, like other calls; else the checkpoint reports them
    std::function<Metadata()> metadata;
    std::function<Error(const Error& error)> advise;  // adds advice to errors about non-finite values
    std::function<void(std::string text)> warn;
    // Reports best weights that were written, or the reason why not ("" if they were).
    std::function<void(const Best& best, const std::string& file, const std::string& cause)> report_best;
  };
  WeightsWriter(const ReplicaView& view, Setting setting) : view_(view), setting_(std::move(setting)) {}

  // Writes the weights used by other graphs, from the replicas. All processes call it. Returns the file; "" if this process
  // writes none. Throws Error(storage), and Error(run) for non-finite values.
  std::string save(const std::string& name);
  // save() at the end of a run, after `step`. If the run's folder fails, files go to the rescue folder; lost() reports it.
  std::string save_last(std::uint64_t step);

  // In a run without checkpoints: writes the best weights from the replicas. All processes call it.
  void save_best(const Best& best);
  // In a run with checkpoints: writes the best weights from a checkpoint's values, with the metadata of the last
  // prepare_export(), which the run's thread calls.
  void prepare_export() { export_metadata_ = setting_.metadata(); }
  void export_best(const Best& best, const WeightsFile::Fetch& values);
  std::filesystem::path best_path() const;
  std::optional<Best> best_there() const { return best_in(best_path()); }  // the metadata of best.safetensors
  // In a resumed run: makes best.safetensors match its checkpoint's best. `values`: of that best; none if they are lost. Sets
  // aside best weights of an abandoned branch, or of a metric other than run.best (`figure`; "": there is none).
  void resume_best(const std::string& figure, const std::optional<Best>& known, const std::optional<WeightsFile::Fetch>& values,
                   bool rewinds_history);
  void retry_best();  // retries the kept ones
  // The last attempt: lost() describes what was not written. Returns the addition to lost(). REQUIRES: no checkpoint is being
  // written.
  std::string finish_best();

  // Files that were not written, why, and where they are instead; "" if there are none.
  const std::string& lost() const { return lost_; }

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
  // Returns the addition to lost().
  std::string rescue(const WeightsFile& weights, const std::string& name, const std::string& what, const std::string& cause);

  const ReplicaView view_;
  const Setting setting_;
  Metadata export_metadata_;
  std::optional<Waiting> waiting_;
  bool is_reported_ = false;      // reported that best weights are kept
  std::filesystem::path rescue_;  // the one in use; "": none yet
  std::string lost_;
};

}  // namespace millrace

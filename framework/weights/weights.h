// Transfers weights into replicas and out of them.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "millrace/backend/backend.h"
#include "millrace/backend/network.h"
#include "millrace/util/group.h"
#include "weights/tensor_file.h"

namespace millrace {

// Values of every parameter, in the network's order.
using Weights = std::vector<std::vector<float>>;

// A network's running statistics, by parameter: the mean over all replicas, weighted by `load` (empty: equally), as used by
// inference with a run's weights. Each replica has normalised by the statistics of its own share of every batch. Its running
// variances are unbiased estimates of the same variance, so their mean is one from more images. The differences of the running
// means are the error of these estimates, and are not added to the variance.
//
// Validation during a run uses each replica's own statistics, so its metrics may differ from the file's in the last digits.
// Resuming with exact results needs each replica's own; this is not enough. REQUIRES: at least one replica; load as for split().
// `group`: the processes with the other replicas, all of which call this; null: there is one.
std::map<int, std::vector<float>> mean_statistics(const std::vector<std::unique_ptr<Replica>>& replicas, const Network& network,
                                                  std::span<const double> load, Group* group = nullptr);
// The copies of all processes, in order of replicas. `mine`: at least one. All processes call it.
std::vector<std::vector<float>> copies_of_all(const std::vector<std::vector<float>>& mine, Group& group);
std::vector<float> weighted_mean(const std::vector<std::vector<float>>& copies, std::span<const double> load);

// A file of weights to be written. Fetches the values of one parameter at a time while writing, since memory may not suffice for
// a copy of the network.
class WeightsFile {
 public:
  using Fetch = std::function<std::vector<float>(int parameter)>;

  // `metadata`: from plans_of() and metadata_of().
  WeightsFile(const Network& network, Fetch fetch, std::map<std::string, std::string> metadata);
  // As safetensors. Throws Error(storage), and Error(run) for non-finite values, which are not written.
  void write(const std::string& path) const;
  // Copies all values, so that `fetch` is no longer called and its sources may change. Throws Error(run) as write() does.
  void keep(const std::string& path);

 private:
  std::vector<float> values(std::size_t parameter, const std::string& path) const;

  std::vector<ListedTensor> tensors_;
  Fetch fetch_;
  std::map<std::string, std::string> metadata_;
};
void save_weights_file(const std::string& path, const Network& network, const Weights& weights,
                       const std::map<std::string, std::string>& metadata = {});

// The names of classes by label, used to name predictions. Empty for other tools' metadata.
std::map<std::string, std::string> metadata_of(const std::vector<std::string>& classes);
std::vector<std::string> classes_from(const std::map<std::string, std::string>& metadata);

// The choices of the replicas' backends (Replica::plans()), by device and replica: metadata of the file of weights, so that a
// run that starts from it computes in the same way. Replicas are numbered over all processes, starting at `first`.
std::map<std::string, std::string> plans_of(const std::vector<std::unique_ptr<Replica>>& replicas,
                                            const std::vector<std::unique_ptr<Device>>& devices, std::size_t first = 0);
// The plans of all processes. All processes call it.
std::map<std::string, std::string> plans_of_all(const std::map<std::string, std::string>& mine, Group& group);
// The plans for this replica's device: its own; else another replica's of the same model; else any for its backend, which will
// report differences; else "".
std::string plans_for(const DeviceInfo& device, std::size_t replica, const std::map<std::string, std::string>& metadata);

}  // namespace millrace

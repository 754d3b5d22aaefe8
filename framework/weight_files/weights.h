// Weights into replicas and out of them.
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
#include "weight_formats/tensor_file.h"

namespace millrace {

// Values of every parameter, in the network's order.
using Weights = std::vector<std::vector<float>>;

// A network's running statistics, by parameter: the mean over all replicas, weighted by `load` (empty: equally), which is what
// inference uses of a run. Each replica has normalised by the statistics of its own share of every batch, and its running
// variances are unbiased estimates of one and the same variance; so their mean is one, of more images. What the running means
// differ by is the error of these estimates and is not added to the variance.
//
// Validation during a run uses each replica's own statistics, so its figures may differ in the last places from those of the
// file. A run that is to resume bit for bit needs each replica's own; this is not enough for it. REQUIRES: at least one replica;
// load as split() takes it.
// `group`: the processes that have the other replicas, all of which call this; null: there are none.
std::map<int, std::vector<float>> mean_statistics(const std::vector<std::unique_ptr<Replica>>& replicas, const Network& network,
                                                  std::span<const double> load, Group* group = nullptr);
// The copies of all processes, in order of replicas. `mine`: at least one. All processes call it.
std::vector<std::vector<float>> copies_of_all(const std::vector<std::vector<float>>& mine, Group& group);
std::vector<float> weighted_mean(const std::vector<std::vector<float>>& copies, std::span<const double> load);

// A file of weights that is to be written. The values of one parameter after the other are fetched while it is: a network may
// fill the memory, and there is no room for a copy of it.
class WeightsFile {
 public:
  using Fetch = std::function<std::vector<float>(int parameter)>;

  // `metadata`: of plans_of() and metadata_of().
  WeightsFile(const Network& network, Fetch fetch, std::map<std::string, std::string> metadata);
  // As safetensors. Throws Error(storage), and Error(run) for values that are not finite: then it is not written.
  void write(const std::string& path) const;
  // Copies all values: `fetch` is called no more, and what it read from may change. Throws Error(run) as write() does.
  void keep(const std::string& path);

 private:
  std::vector<float> values(std::size_t parameter, const std::string& path) const;

  std::vector<ListedTensor> tensors_;
  Fetch fetch_;
  std::map<std::string, std::string> metadata_;
};
void save_weights_file(const std::string& path, const Network& network, const Weights& weights,
                       const std::map<std::string, std::string>& metadata = {});

// The names of classes by label, so that predictions from a file of weights can name them. Metadata of others: no names.
std::map<std::string, std::string> metadata_of(const std::vector<std::string>& classes);
std::vector<std::string> classes_from(const std::map<std::string, std::string>& metadata);

// What the replicas' backends have chosen (Replica::plans()), by device and replica: metadata of the file of weights, so that a
// run that starts from it computes as the one that wrote it did. Replicas are numbered over all processes from `first` on.
std::map<std::string, std::string> plans_of(const std::vector<std::unique_ptr<Replica>>& replicas,
                                            const std::vector<std::unique_ptr<Device>>& devices, std::size_t first = 0);
// Those of all processes. All processes call it.
std::map<std::string, std::string> plans_of_all(const std::map<std::string, std::string>& mine, Group& group);
// Those for this replica's device: its own; else another replica's of the same model; else any for its backend, which will say
// what differs; else "".
std::string plans_for(const DeviceInfo& device, std::size_t replica, const std::map<std::string, std::string>& metadata);

}  // namespace millrace

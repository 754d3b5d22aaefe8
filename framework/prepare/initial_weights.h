// The initial weights of a run: their choice, their values, and their transfer to replicas.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "config/plan.h"
#include "millrace/util/group.h"
#include "network/transfer.h"
#include "prepare/graph_build.h"
#include "util/scratch_folder.h"
#include "weights/weights.h"

namespace millrace {

struct InitialWeights {
  WeightsSource from;                           // its file is "" if all parameters are initialised
  Weights values;                               // in the network's order, until replicas have them; empty: all are initialised
  std::map<std::string, std::string> metadata;  // the file's; in a resumed run, its checkpoint's
  std::string new_layer;                        // layer that is initialised because the file has other classes; "": none
  std::string checksum;                         // the file's; compared by ranks
};

struct WeightsOptions {
  std::string file;         // --weights: a path or a URL; "": as in [network]
  bool begins = true;       // from the first step
  bool is_profile = false;  // the values do not matter
};

// The options for `weights` in [network] apply to --weights too. But a graph that does not train, or a run that begins with a
// later step, needs a file written by a run of this network: all of it, by its own names. Throws Error(usage) if the file and
// the options contradict each other. REQUIRES: the pipeline has a network.
WeightsSource choose_weights(const Pipeline& pipeline, const GraphPlan& main, const WeightsOptions& options);

// Fetches a remote file, and reads it. `doing` and `announce`: as for local_weights(). Throws as local_weights() and
// load_weights(), with the file's name.
InitialWeights read_weights(WeightsSource from, const WeightsOptions& options, const Network& network, const Registry& registry,
                            const std::function<void(std::string)>& doing,
                            const std::function<void(const std::string&)>& announce = {});

// Initialises the last layer with parameters, even if values were read for it.
void begin_last_layer_new(InitialWeights& weights, const Network& network);

// Gives all replicas the same values, and frees the values read. Throws Error(usage) if `main` makes predictions with an
// untrained network. REQUIRES: replicas have started.
void write_initial_values(InitialWeights& weights, const Pipeline& pipeline, const GraphBuild& main,
                          const std::vector<std::unique_ptr<Replica>>& replicas, const WeightsOptions& options);

// Sends a file of weights to ranks that have no copy. All ranks call it with the path of their initial weights; "": none. Each
// rank fetches URLs itself. The first rank with its file sends it to all that lack theirs. A rank that receives one reads the
// copy in the returned folder, to which `path` is set; else null. Throws Error(storage) if it cannot be stored.
std::unique_ptr<ScratchFolder> send_weights_where_missing(std::string& path, Group& group);

std::string checksum_of_file(const std::string& path);

}  // namespace millrace

// The weights that a run starts from: which ones, their values, and how replicas get them.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "config/plan.h"
#include "network/transfer.h"
#include "stages/build.h"
#include "weight_files/weights.h"

namespace millrace {

struct InitialWeights {
  WeightsSource from;                           // its file is "" where all parameters begin new
  Weights values;                               // in the network's order, until replicas have them; empty: they begin new
  std::map<std::string, std::string> metadata;  // of the file; of a resumed run, of its checkpoint
  std::string new_layer;                        // that begins new since the file has other classes; "": none
  std::string checksum;                         // of the file, which ranks compare
};

struct WeightsOptions {
  std::string file;         // --weights: a path or a URL; "": as [network] says
  bool begins = true;       // with the first step
  bool is_profile = false;  // values do not matter
};

// What [network] says of `weights` holds for --weights too. But a graph that does not train, and a run that begins with a later
// step, take the file that a run of this network has written: all of it, by its own names. Throws Error(usage) where the file and
// the options contradict each other. REQUIRES: the pipeline has a network.
WeightsSource choose_weights(const Pipeline& pipeline, const GraphPlan& main, const WeightsOptions& options);

// What to warn of where all parameters begin new: one that is random and frozen. "": nothing.
std::string warning_of_frozen(const Pipeline& pipeline);

// Fetches the file where it is remote, and reads it. `doing` is told what takes time. Throws what local_weights() and
// load_weights() throw, with the file's name.
InitialWeights read_weights(WeightsSource from, const WeightsOptions& options, const Network& network, const Registry& registry,
                            const std::function<void(std::string)>& doing);

// The last layer that has parameters begins with new values, whatever was read for it.
void begin_last_layer_new(InitialWeights& weights, const Network& network);

// Gives all replicas the same values, and frees those that were read. Throws Error(usage) where `main` makes predictions with a
// network that has not learned anything. REQUIRES: replicas have started.
void write_initial_values(InitialWeights& weights, const Pipeline& pipeline, const GraphBuild& main,
                          const std::vector<std::unique_ptr<Replica>>& replicas, const WeightsOptions& options);

}  // namespace millrace

// In what a resumed run differs from its checkpoint, and whether that is allowed.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "checkpoint/saved_state.h"
#include "checkpoint/versions.h"
#include "config/difference.h"
#include "config/plan.h"

namespace millrace {

// What a run is now, in what a checkpoint is compared by.
struct RunRecord {
  std::string pipeline, network;                 // the resolved file and the network's, as TOML; "": there is no such file
  std::map<std::string, SavedState::Data> data;  // by source
  std::string backend, precision;
  std::uint64_t replicas = 0;  // of all processes
  Versions versions = {};      // of the code and of the devices
};

struct RunComparison {
  std::vector<Difference> differences;
  std::vector<std::string> keys;  // all that either side has, or may have: what --allow-change can name
};
// What differs is in the file, without the keys that cannot change results, and without paths of data that list the same; in the
// network's file, wherever it lies; in the data; in the precision and the devices as they were chosen. `plan`: of the file that
// is run. Throws Error(usage) for TOML that is none.
RunComparison compare_with_checkpoint(const FoundCheckpoint& from, const RunRecord& now, const Pipeline& plan);

// Throws Error(usage) that lists the differences which are not `allowed`, and for a key to allow that is not there.
void require_allowed(const RunComparison& comparison, const std::vector<std::string>& allowed, const std::string& pipeline,
                     const std::string& checkpoint);

// The parts of it, each by itself.

// "train.read.samples", "train.read.classes", and "train.read.listing" where these two are the same, of sources that both have.
// `places`: of their tables, for messages.
std::vector<Difference> data_differences(const std::map<std::string, SavedState::Data>& then,
                                         const std::map<std::string, SavedState::Data>& now,
                                         const std::map<std::string, std::string>& places);

// Whether a key says where the data of `source`, "train.read", lie: what lies there is compared, and not its place.
bool is_path_of(const std::string& source, const std::string& key);

// By source, "train.read": where its table stands, "mine.toml:14:1".
std::map<std::string, std::string> places_of_sources(const Pipeline& pipeline);

// Adds all keys in `value`, "network.use.layers[3].probability" where `key` is "network.use"; `key` "": those of a whole file.
void add_keys(const std::string& key, const Value& value, std::vector<std::string>& keys);
// Adds the keys that [run], [stop], [plateau], [network] and the stages of the graphs may have, and those of data_differences().
void add_possible_keys(const Pipeline& pipeline, std::vector<std::string>& keys);

// Throws Error(usage) that names one of `allowed` which is not among `keys`, and the nearest one that is.
void require_keys(const std::vector<std::string>& allowed, const std::vector<std::string>& keys);

}  // namespace millrace

// Differences between a resumed run and its checkpoint, and whether they are allowed.
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

// The properties of the current run that are compared with a checkpoint.
struct RunRecord {
  std::string pipeline, network;                 // the resolved file and the network's, as TOML; "" without a file
  std::map<std::string, SavedState::Data> data;  // by source
  std::string backend, precision;
  std::uint64_t replicas = 0;  // in all processes
  Versions versions = {};      // versions of the code and devices
};

struct RunComparison {
  std::vector<Difference> differences;
  std::vector<std::string> keys;  // all keys that either side has or may have, which --allow-change accepts
};
// Compares the file, without keys that cannot change results and without paths of data with equal listings; the network's file,
// wherever it lies; the data; the precision and devices as chosen. `plan`: the current file. Throws Error(usage) for invalid
// TOML.
RunComparison compare_with_checkpoint(const FoundCheckpoint& from, const RunRecord& now, const Pipeline& plan);

// Throws Error(usage) that lists the differences not in `allowed`, or an allowed key that does not exist.
void require_allowed(const RunComparison& comparison, const std::vector<std::string>& allowed, const std::string& pipeline,
                     const std::string& checkpoint);

// Its parts:

// Compares sources that both sides have: "train.read.samples", "train.read.classes" and, where these are equal,
// "train.read.listing". `places`: positions of the sources' tables, for messages.
std::vector<Difference> data_differences(const std::map<std::string, SavedState::Data>& then,
                                         const std::map<std::string, SavedState::Data>& now,
                                         const std::map<std::string, std::string>& places);

// Whether a key is a path of the data of `source` ("train.read"). The data are compared instead of their location.
bool is_path_of(const std::string& source, const std::string& key);

// Position of each source's table: "train.read" to "mine.toml:14:1".
std::map<std::string, std::string> places_of_sources(const Pipeline& pipeline);

// Adds all keys in `value`, such as "network.use.layers[3].probability" if `key` is "network.use". An empty `key` stands for a
// whole file.
void add_keys(const std::string& key, const Value& value, std::vector<std::string>& keys);
// Adds the possible keys of [run], [stop], [plateau], [network] and the graphs' stages, and those of data_differences().
void add_possible_keys(const Pipeline& pipeline, std::vector<std::string>& keys);

// Throws Error(usage) if one of `allowed` is not among `keys`; the message suggests the nearest key.
void require_keys(const std::vector<std::string>& allowed, const std::vector<std::string>& keys);

}  // namespace millrace

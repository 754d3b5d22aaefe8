// What a run may not change behind a checkpoint, besides the keys of two files (config/difference.h): its data. And which keys
// there are to be allowed.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "config/difference.h"
#include "config/plan.h"
#include "run/run_state.h"

namespace millrace {

// "train.read.samples", "train.read.classes", and "train.read.listing" where these two are the same, of sources that both have.
// `places`: of their tables, for messages.
std::vector<Difference> data_differences(const std::map<std::string, RunState::Data>& then,
                                         const std::map<std::string, RunState::Data>& now,
                                         const std::map<std::string, std::string>& places);

// By source, "train.read": where its table stands, "mine.toml:14:1".
std::map<std::string, std::string> places_of_sources(const Pipeline& pipeline);

// Adds all keys in `value`, "network.use.layers[3].probability" where `key` is "network.use"; `key` "": those of a whole file.
void add_keys(const std::string& key, const Value& value, std::vector<std::string>& keys);
// Adds the keys that [run], [stop], [plateau], [network] and the stages of the graphs may have, and those of data_differences().
void add_possible_keys(const Pipeline& pipeline, std::vector<std::string>& keys);

// Throws Error(usage) that names one of `allowed` which is not among `keys`, and the nearest one that is.
void require_keys(const std::vector<std::string>& allowed, const std::vector<std::string>& keys);

}  // namespace millrace

// Draws valid pipelines: every stage, source, loss, optimizer and table with its declared keys.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "drawn_data.h"
#include "drawn_keys.h"
#include "millrace/plugin.h"

namespace millrace::generator {

struct DrawnPipeline {
  std::uint64_t seed = 0, number = 0;  // identify the drawing
  Value pipeline;                      // pipeline.toml
  Value network;                       // network.toml next to it
};

// Reproducible for the same seed, number, data and registry. Most are accepted after removing some keys (trial.h).
DrawnPipeline drawn_pipeline(std::uint64_t seed, std::uint64_t number, const Registry& registry, const DataSet& data);

// All keys of all tables that can be drawn: "augment.flip_x", "optimizer.groups.match", "sgd.momentum", "run.epochs".
std::vector<std::string> known_keys(const Registry& registry);
// The keys in one pipeline and its network.
std::vector<std::string> keys_of(const DrawnPipeline& drawn, const Registry& registry);

// The same pipeline with its photos in shards, and as the equal plain folder. Empty if it reads something else.
struct TwoSources {
  DrawnPipeline folder, shards;
};
std::optional<TwoSources> folder_and_shards(const DrawnPipeline& drawn, const DataSet& data);

}  // namespace millrace::generator

// Files that a run keeps next to pipeline.toml, so that its folder is self-contained: copies of the network's file and of lists,
// and record.json, which describes each file from which the run was made:
//
//   { "working_folder": "/home/ada/project",
//     "files": [ { "what": "list", "key": "train.read.path", "path": "/home/ada/project/list.csv", "sha256": "...",
//                  "copy": "lists/train.read.path.csv" }, ... ],
//     "versions": {...}, "data": {...} }
//
// `what` is "pipeline", "network", "list" or "weights". `copy` is below the run's folder; large lists have none.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "millrace/detail/value.h"

namespace millrace {

inline constexpr const char *kKeptPipeline = "pipeline.toml", *kKeptRecord = "record.json";

// Makes a pipeline from a run's folder, or from a checkpoint there, refer to the data that the run used: lists edited since are
// replaced by the run's copies, and missing data are searched for at the same place in the working folder. `warnings`: receives a
// line for each edited file, naming the one used. Other files stay unchanged.
void follow_kept_run(const std::filesystem::path& file, Value& document, std::vector<std::string>& warnings);

// Whether a source's key locates its data: "path".
bool is_data_path(std::string_view key);
// Whether a text is a local path: not a URL, and without environment variables.
bool is_local_path(const std::string& text);

}  // namespace millrace

// What a run keeps in its folder beside pipeline.toml, so that the folder is enough: copies of the network's file and of lists,
// and record.json, which says what each file held from which the run was made:
//
//   { "working_folder": "/home/ada/project",
//     "files": [ { "what": "list", "key": "train.read.path", "path": "/home/ada/project/list.csv", "sha256": "...",
//                  "copy": "lists/train.read.path.csv" }, ... ],
//     "versions": {...}, "data": {...} }
//
// `what` is "pipeline", "network", "list" or "weights". `copy` lies below the run's folder; larger lists have none.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "millrace/detail/value.h"

namespace millrace {

inline constexpr const char *kKeptPipeline = "pipeline.toml", *kKeptRecord = "record.json";

// Has the pipeline that a run has left in its folder, or in a checkpoint there, name what the run used: lists that have been
// edited since are replaced by the run's copies, and data that are gone are looked for in the working folder, at the same place.
// `warnings`: gets a line for each file that has been edited since, which says what is used. Other files stay as they are.
void follow_kept_run(const std::filesystem::path& file, Value& document, std::vector<std::string>& warnings);

// Whether a key of a source names where its data lie: "path".
bool is_data_path(std::string_view key);
// Whether a text is the path of a file or folder of this machine: no URL, and no variable of the environment.
bool is_local_path(const std::string& text);

}  // namespace millrace

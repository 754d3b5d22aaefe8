// What a run keeps in its folder beside pipeline.toml, so that the folder is enough: copies of the network's file and of lists,
// and record.json, which says what every file held from which the run was made.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "millrace/detail/value.h"

namespace millrace {

inline constexpr const char *kKeptPipeline = "pipeline.toml", *kKeptRecord = "record.json";

// A file from which the run was made, as it was when the run began.
struct KeptFile {
  std::string what;    // "pipeline", "network", "list", "weights"
  std::string key;     // that names it: "train.read.path"; "" of a pipeline
  std::string path;    // absolute
  std::string sha256;  // "": this build has none
  std::uint64_t bytes = 0;
  std::int64_t changed = 0;  // when, by the file system's clock: with the same size and time nothing is hashed again
  std::string copy = {};     // below the run's folder; "": none
};

struct KeptRun {
  std::string working_folder;  // in which the run was started
  std::vector<KeptFile> files;
  // For who reads the record; read_kept_run() leaves them out.
  std::map<std::string, std::string> versions = {};                     // checkpoint/versions.h
  std::map<std::string, std::map<std::string, std::string>> data = {};  // by source: "samples", "listing_hash", "contents_hash"
};

// The file as it is now. Throws Error(storage).
KeptFile file_now(std::string what, std::string key, const std::filesystem::path& path);

std::string to_json(const KeptRun& kept);  // the whole of record.json
// Nothing where the folder holds no record, or none that can be read: it is of an older version.
std::optional<KeptRun> read_kept_run(const std::filesystem::path& folder);

// Has the pipeline that a run has left in its folder, or in a checkpoint there, name what the run used: lists that have been edited since are replaced by
// the run's copies, and data that are gone are looked for in the working folder, at the same place. `warnings`: gets a line for
// each file that has been edited since, which says what is used. Other files stay as they are.
void follow_kept_run(const std::filesystem::path& file, Value& document, std::vector<std::string>& warnings);

// Whether a key of a source names where its data lie: "path".
bool is_data_path(std::string_view key);
// Whether a text is the path of a file or folder of this machine: no URL, and no variable of the environment.
bool is_local_path(const std::string& text);

}  // namespace millrace

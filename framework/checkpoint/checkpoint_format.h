// Contents of a checkpoint's files, wherever they lie, and which checkpoints of a run are kept.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "millrace/storage.h"

namespace millrace {

inline constexpr const char *kTensorsFile = "state.safetensors", *kStateFile = "state.json", *kPipelineFile = "pipeline.toml";
inline constexpr const char* kManifestFile = "manifest.json";

// A file's entry in the manifest.
struct FileSum {
  std::string name;
  std::uint64_t bytes = 0;
  std::string crc64;
  friend bool operator==(const FileSum&, const FileSum&) = default;
};

using MakeWriter = std::function<std::unique_ptr<Storage::Writer>(const std::string& name)>;
// Writes all files, the manifest last, and commits each.
std::vector<FileSum> write_files(const Checkpoint& checkpoint, const MakeWriter& make);

// Throws Error(data) when the text is damaged, or does not name every file of a checkpoint exactly once.
std::vector<FileSum> read_manifest(const std::string& text);
// Throws Error(data) that describes how `found` differs from the manifest's entry.
void check_sum(const FileSum& found, const FileSum& expected);

// "step-000001200", or "step-000001200.2" for a step that was written again. Other names are a user's.
bool is_checkpoint_name(std::string_view name);
// Message for a file `latest` at `place` that names a missing checkpoint.
std::string lost_latest(const std::string& place, const std::string& name);
std::uint64_t step_of_checkpoint(const std::string& name);  // REQUIRES: is_checkpoint_name(name)
// The step, and how often it was written: the newer checkpoint has the larger pair. REQUIRES: is_checkpoint_name(name)
std::pair<std::uint64_t, std::uint64_t> order_of_checkpoint(const std::string& name);

// The checkpoints to remove when `name` is the newest, see tidy_checkpoints(). `names`: newest first.
std::vector<std::string> checkpoints_to_remove(const std::vector<std::string>& names, const std::string& name,
                                               const std::string& best, std::size_t keep, const RetentionPeriod& period);

// The first readable checkpoint of `names`; `warn` gets a message for each damaged one. Throws errors other than Error(data),
// such as an unreachable storage, since they do not show damage.
std::optional<FoundCheckpoint> first_whole(const std::vector<std::string>& names, const std::filesystem::path& folder,
                                           const std::function<Checkpoint(const std::string& name)>& read,
                                           const std::function<void(std::string)>& warn);

}  // namespace millrace

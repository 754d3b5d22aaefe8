// What the files of a checkpoint hold, wherever they lie, and which checkpoints of a run are kept.
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

// What the manifest says of a file.
struct FileSum {
  std::string name;
  std::uint64_t bytes = 0;
  std::string crc64;
  friend bool operator==(const FileSum&, const FileSum&) = default;
};

using MakeWriter = std::function<std::unique_ptr<Storage::Writer>(const std::string& name)>;
// Writes all files, the manifest last, and commits each.
std::vector<FileSum> write_files(const Checkpoint& checkpoint, const MakeWriter& make);

// Throws Error(data) when the text is damaged, or does not name every file of a checkpoint once, and no other.
std::vector<FileSum> read_manifest(const std::string& text);
// Throws Error(data) that says how the file that was found differs from what the manifest says of it.
void check_sum(const FileSum& found, const FileSum& expected);

// "step-000001200", and "step-000001200.2" of a step that was written again. Other names beside them are a user's.
bool is_checkpoint_name(std::string_view name);
// What is said where the file `latest` at `place` holds `name`, and there is no such checkpoint.
std::string lost_latest(const std::string& place, const std::string& name);
std::uint64_t step_of_checkpoint(const std::string& name);  // REQUIRES: is_checkpoint_name(name)
// Its step, and how often that was written: the newer checkpoint has the larger pair. REQUIRES: is_checkpoint_name(name)
std::pair<std::uint64_t, std::uint64_t> order_of_checkpoint(const std::string& name);

// Which checkpoints, named newest first, go when `name` is the newest: see tidy_checkpoints().
std::vector<std::string> checkpoints_to_remove(const std::vector<std::string>& names, const std::string& name,
                                               const std::string& best, std::size_t keep, const RetentionPeriod& period);

// The first of `names` that can be read; `warn` is told of each that cannot, and why. What is no Error(data), such as a storage
// that does not answer, says nothing about a checkpoint, and is thrown.
std::optional<FoundCheckpoint> first_whole(const std::vector<std::string>& names, const std::filesystem::path& folder,
                                           const std::function<Checkpoint(const std::string& name)>& read,
                                           const std::function<void(std::string)>& warn);

}  // namespace millrace

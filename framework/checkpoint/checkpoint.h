// A checkpoint on the disk: a folder such as step-000001200 with
//
//   state.safetensors  every state of every parameter, "conv1.weight/momentum", and running statistics of each replica,
//                      "bn1.running_mean/value/1"
//   state.json         the progress of the run (saved_state.h)
//   pipeline.toml      the resolved file
//   manifest.json      size and CRC-64/XZ of each of these
//
// Next to these folders lie the files `latest` and `best`, which each name one of them, and `number` (RunPlaces). A folder is
// written under a name that begins with a dot. It is renamed once it is on the disk and was read back, and `latest` moves after
// that. So `latest` always names a whole checkpoint, even if the writer is killed.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/saved_state.h"
#include "weights/tensor_file.h"

namespace millrace {

struct Checkpoint {
  SavedState state;
  std::vector<NamedTensor> tensors;
  std::string pipeline;  // TOML
};

std::string checkpoint_name(std::uint64_t step);  // "step-000001200"
// The checkpoints in a folder, whole or not, the newest first; none if the folder does not exist. Throws Error(run) naming an
// unreadable folder.
std::vector<std::string> checkpoint_names(const std::filesystem::path& folder);

// Writes folder/step-..., replacing one of the same step, reads it back and compares. Returns its size in bytes; all are on the
// disk. Throws Error(storage) that names file and cause, and leaves nothing behind.
std::uint64_t write_checkpoint(const std::filesystem::path& folder, const Checkpoint& checkpoint);
// Points `pointer` ("latest" or "best") to the checkpoint. Throws Error(storage).
void point_to(const std::filesystem::path& folder, const std::string& pointer, const std::string& name);
// The checkpoint's name; "" if the pointer does not exist. Throws if it cannot be read, since its target is then unknown.
std::string pointed_to(const std::filesystem::path& folder, const std::string& pointer);
// The retention period of a step: the first checkpoint of each period except period 0 is kept for ever.
using RetentionPeriod = std::function<std::uint64_t(std::uint64_t step)>;
// Removes leftovers of killed writers, all checkpoints after `name`, and those before it except the newest `keep`, the best and
// those that `period` keeps (null keeps none).
void tidy_checkpoints(const std::filesystem::path& folder, const std::string& name, std::size_t keep,
                      const RetentionPeriod& period = {});

// Removes leftovers of killed programs in the folder, such as "latest.new-1234" of an OutputFile or ".step-000000010.new", but
// not `used`, the checkpoint that the run resumes from. REQUIRES: no other program writes there.
void remove_unfinished(const std::filesystem::path& folder, const std::filesystem::path& used);

// Checks sizes and checksums first. Throws Error(data) that describes the damage, or Error(storage) if the file cannot be read
// now but may be whole.
Checkpoint read_checkpoint(const std::filesystem::path& path);

struct FoundCheckpoint {
  std::filesystem::path path;
  Checkpoint checkpoint;
};
// The checkpoint that `latest` names or, if it is damaged, the newest whole one. `warn` gets a message for each damaged one.
std::optional<FoundCheckpoint> newest_checkpoint(const std::filesystem::path& folder,
                                                 const std::function<void(std::string)>& warn);

// The first tensor with a non-finite value; "" if all are finite.
std::string not_finite(const std::vector<NamedTensor>& tensors);

}  // namespace millrace

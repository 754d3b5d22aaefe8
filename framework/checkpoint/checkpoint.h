// A checkpoint on the disk: a folder such as step-000001200 with
//
//   state.safetensors  every state of every parameter, "conv1.weight/momentum", and running statistics of each replica,
//                      "bn1.running_mean/value/1"
//   state.json         where the run stands (saved_state.h)
//   pipeline.toml      the resolved file
//   manifest.json      size and CRC-64/XZ of each of these
//
// Beside these folders lie the files `latest` and `best`, which hold the name of one of them, and `number` (RunPlaces). A folder
// is written under a name that begins with a dot. It gets its own name when all of it is on the disk and was read back, and
// `latest` moves after that. So a reader of `latest` finds a whole checkpoint, wherever the writer was killed.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/saved_state.h"
#include "weight_formats/tensor_file.h"

namespace millrace {

struct Checkpoint {
  SavedState state;
  std::vector<NamedTensor> tensors;
  std::string pipeline;  // TOML
};

std::string checkpoint_name(std::uint64_t step);  // "step-000001200"
// Those in the folder, whole or not, the newest first; none where there is no folder. Throws Error(run) naming a folder that
// cannot be read.
std::vector<std::string> checkpoint_names(const std::filesystem::path& folder);

// Writes folder/step-..., in the place of one of the same step, reads it back and compares. Returns its bytes; all of them are on
// the disk. Throws Error(storage) that names file and cause, and leaves no part of it.
std::uint64_t write_checkpoint(const std::filesystem::path& folder, const Checkpoint& checkpoint);
// Makes `pointer`, "latest" or "best", name the checkpoint. Throws Error(storage).
void point_to(const std::filesystem::path& folder, const std::string& pointer, const std::string& name);
// The checkpoint's name; "": there is no such file. Throws where it cannot be read: then it is not known which one it names.
std::string pointed_to(const std::filesystem::path& folder, const std::string& pointer);
// The retention period that a step is in: the first checkpoint of each period but period 0 is kept for ever.
using RetentionPeriod = std::function<std::uint64_t(std::uint64_t step)>;
// Removes what writers that were killed have left, and of all checkpoints those after `name`, and those before it but the newest
// `keep`, the best and what `period` keeps; null: that keeps none.
void tidy_checkpoints(const std::filesystem::path& folder, const std::string& name, std::size_t keep,
                      const RetentionPeriod& period = {});

// Removes what killed programs have left in the folder: "latest.new-1234" of an OutputFile, ".step-000000010.new"; not `used`,
// the checkpoint that the run resumes from. Nothing else goes. REQUIRES: no other program writes there.
void remove_unfinished(const std::filesystem::path& folder, const std::filesystem::path& used);

// Checks sizes and checksums before anything is believed. Throws Error(data) that says what is wrong, and Error(storage) where a
// file may well be whole and cannot be read now.
Checkpoint read_checkpoint(const std::filesystem::path& path);

struct FoundCheckpoint {
  std::filesystem::path path;
  Checkpoint checkpoint;
};
// The one that `latest` names; else, where it is not whole, the newest that is. `warn` is told of each that is not, and why.
std::optional<FoundCheckpoint> newest_checkpoint(const std::filesystem::path& folder,
                                                 const std::function<void(std::string)>& warn);

// The first tensor with a value that is not finite; "": all are.
std::string not_finite(const std::vector<NamedTensor>& tensors);

}  // namespace millrace

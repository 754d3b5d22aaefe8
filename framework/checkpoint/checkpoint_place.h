// Where the checkpoints of a run lie: in a folder, or below a URL of a writable storage, such as s3://bucket/prefix. Both hold
// the same files, and `latest` always names a whole checkpoint (checkpoint.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "millrace/storage.h"

namespace millrace {

class CheckpointPlace {
 public:
  struct Written {
    std::string name;  // "step-000001200"
    std::uint64_t bytes = 0;
  };

  virtual ~CheckpointPlace() = default;

  // Called once before anything is written. Throws if the place is not writable.
  virtual void open() = 0;
  virtual Written write(const Checkpoint& checkpoint) = 0;  // returns once the checkpoint is whole. Usually throws Error(storage)
  virtual void point_to(const std::string& pointer, const std::string& name) = 0;
  virtual std::string pointed_to(const std::string& pointer) = 0;
  virtual void tidy(const std::string& name, std::size_t keep, const RetentionPeriod& period) = 0;
  // Removes unfinished files of killed programs. The run resumes from the checkpoint `used`.
  virtual void remove_unfinished(const std::string& used) = 0;
  virtual std::vector<std::string> names() = 0;  // existing ones, the newest first
  virtual Checkpoint read(const std::string& name) = 0;
  virtual std::optional<FoundCheckpoint> newest(const std::function<void(std::string)>& warn) = 0;
};

// `where`: a folder or, with a storage, a URL, which paths keep unchanged. Touches nothing yet.
std::unique_ptr<CheckpointPlace> checkpoint_place(const std::filesystem::path& where, Storage* storage);

}  // namespace millrace

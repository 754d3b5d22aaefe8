// Where the checkpoints of a run lie: in a folder, or below a URL of a storage that writes, such as s3://bucket/prefix. What a
// checkpoint holds, and that `latest` names a whole one at any time, is the same (checkpoint.h).
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

  // Called once before anything is written: throws when the place takes nothing.
  virtual void open() = 0;
  virtual Written write(const Checkpoint& checkpoint) = 0;  // whole when it returns. Throws Error(storage) as a rule
  virtual void point_to(const std::string& pointer, const std::string& name) = 0;
  virtual std::string pointed_to(const std::string& pointer) = 0;
  virtual void tidy(const std::string& name, std::size_t keep, const RetentionPeriod& period) = 0;
  // Removes what killed programs have not finished. The run resumes from the checkpoint `used`.
  virtual void remove_unfinished(const std::string& used) = 0;
  virtual std::vector<std::string> names() = 0;  // of those that are there, the newest first
  virtual Checkpoint read(const std::string& name) = 0;
  virtual std::optional<FoundCheckpoint> newest(const std::function<void(std::string)>& warn) = 0;
};

// `where`: a folder; with a storage, a URL of it, which paths keep as it stands. Nothing is touched yet.
std::unique_ptr<CheckpointPlace> checkpoint_place(const std::filesystem::path& where, Storage* storage);

}  // namespace millrace

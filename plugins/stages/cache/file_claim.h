// Tracks which cache of a run uses a file.
#pragma once

#include <filesystem>
#include <string>

#include "millrace/stage.h"

namespace millrace {

// Claims a file for one cache while this object lives. Graphs have different samples, or different parts of them: if two caches
// of a run shared a file, the last to end would replace the other's file in every run. Thread-safe.
class FileClaim {
 public:
  // Throws Error(usage) if another cache of the same run has it.
  FileClaim(const std::filesystem::path& path, const StageSite& site);
  FileClaim(const FileClaim&) = delete;
  FileClaim& operator=(const FileClaim&) = delete;
  ~FileClaim();

 private:
  const std::filesystem::path path_;
  const RunServices* const run_;
};

}  // namespace millrace

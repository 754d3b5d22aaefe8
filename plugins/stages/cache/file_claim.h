// Which cache of a run has a file.
#pragma once

#include <filesystem>
#include <string>

#include "millrace/stage.h"

namespace millrace {

// The file of one cache, as long as this lives. Each graph has samples of its own, or another part of the same ones: of two
// caches of a run the one that ends last would replace what the other has written, in each run again. Thread-safe.
class FileClaim {
 public:
  // Throws Error(usage) where another cache of the same run has it.
  FileClaim(const std::filesystem::path& path, const StageSite& site);
  FileClaim(const FileClaim&) = delete;
  FileClaim& operator=(const FileClaim&) = delete;
  ~FileClaim();

 private:
  const std::filesystem::path path_;
  const RunServices* const run_;
};

}  // namespace millrace

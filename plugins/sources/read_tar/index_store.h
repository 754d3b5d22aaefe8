// Stores indices between runs.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "index_builder.h"
#include "shards.h"

namespace millrace {

// The index of a shard is next to it, as <shard>.index; if that is not writable or the shard is not a local file, it is in the
// folder "tar" of the user's cache (millrace/util/cache_folder.h). A shard without a version has no stored index. An index is
// rebuilt if it is missing, damaged, or made for another version of the shard or other settings. Thread-safe: files appear
// complete or not at all.
class IndexStore {
 public:
  // `cannot_keep` is called with the reason if an index cannot be stored and the next run must rebuild it.
  IndexStore(IndexSettings settings, std::function<void(const std::string&)> cannot_keep);

  // REQUIRES: shard.known.
  TarIndex open(const Shard& shard) const;

 private:
  std::vector<std::filesystem::path> places(const Shard& shard) const;  // best first

  IndexSettings settings_;
  std::function<void(const std::string&)> cannot_keep_;
};

}  // namespace millrace

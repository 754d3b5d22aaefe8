// Where indices are kept between runs.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "index_builder.h"
#include "shards.h"

namespace millrace {

// The index of a shard lies beside it, as <shard>.index; where that cannot be written, or the shard is no local file, in the
// folder "tar" of the user's cache (millrace/util/cache_folder.h). That of a shard without a version is not kept. It is made when
// there is none, or one that is damaged, of another version of the shard or of other settings. Thread-safe: files appear whole,
// under their names, or not at all.
class IndexStore {
 public:
  // `cannot_keep` is told why an index is neither here nor there, and has to be made again by the next run.
  IndexStore(IndexSettings settings, std::function<void(const std::string&)> cannot_keep);

  // REQUIRES: shard.known.
  TarIndex open(const Shard& shard) const;

 private:
  std::vector<std::filesystem::path> places(const Shard& shard) const;  // the best one first

  IndexSettings settings_;
  std::function<void(const std::string&)> cannot_keep_;
};

}  // namespace millrace

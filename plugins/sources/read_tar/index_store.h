// Builds the indices of shards, and stores them between runs.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "shards.h"
#include "tar_index.h"
#include "window.h"

namespace millrace {

// The members that an index covers in addition to images.
struct IndexSettings {
  std::string label;      // the field of .json members that names the class; empty: .cls members do
  std::string numbers;    // the field of .json members with the numbers to predict; empty: none
  std::string target;     // "label": 000017.label.png is the target of the image; empty: no targets
  bool last_dot = false;  // a key ends at the last dot of a name; then there are no targets
};

IndexKey index_key(std::uint64_t shard_bytes, std::string_view shard_version, const IndexSettings& settings);

// A sample consists of the members with one key: a member's name up to the first dot after its last '/'. The rest after that dot,
// in lower case, is the member's kind: jpg, jpeg, png; cls; json; or, for the target, its name, a dot and an image extension.
// Other members are skipped, and so are those whose last part begins with a dot. Skipped images are counted, except companions of
// an image, such as 000017.depth.png of 000017.jpg.
//
// A sample without an image or with an unreadable label stays in the index and is handled as a bad sample. Errors:
// ErrorKind::data, naming members: TarReader's errors, a sample with two images, a sample whose members are not consecutive, an
// image that is a link.
TarIndex build_index(Window& shard, const IndexKey& key, const IndexSettings& settings);

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

// From a shard's members to its samples.
#pragma once

#include <string>

#include "tar_index.h"
#include "window.h"

namespace millrace {

// What is looked for beside the images; it decides what an index holds.
struct IndexSettings {
  std::string label;      // the field of .json members that names the class; empty: .cls members do
  std::string numbers;    // the field of .json members with what is to be predicted; empty: nothing
  std::string target;     // "label": 000017.label.png is the target of the image; empty: there are none
  bool last_dot = false;  // a key ends at the last dot of a name; there are no targets then
};

IndexKey index_key(std::uint64_t shard_bytes, std::string_view shard_version, const IndexSettings& settings);

// A sample is what has one key: a member's name up to the first dot after its last '/'. What follows that dot, in small letters,
// says what the member is: jpg, jpeg, png; cls; json; and such an image extension after the target's name and a dot. Other
// members are passed over, and so are those whose last part begins with a dot. Images among them are counted, but for such as
// 000017.depth.png beside an image 000017.jpg.
//
// A sample without an image, or whose label cannot be read, stays in the index, for the policy for bad samples to deal with.
// Errors: ErrorKind::data, naming members: what TarReader finds, a sample with two images, a sample whose members do not stand
// together, an image that is a link.
TarIndex build_index(Window& shard, const IndexKey& key, const IndexSettings& settings);

}  // namespace millrace

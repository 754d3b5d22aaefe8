// Class names in a file next to shards.
#pragma once

#include <string>
#include <vector>

#include "shards.h"

namespace millrace {

// The lines of classes.txt next to the shards, as `pipeline-data pack` writes it: names by label. Empty if there is none. Throws
// ErrorKind::data for an empty line, a duplicate name, and if two of these files differ; with `may_differ`, differing files are
// ignored instead.
std::vector<std::string> listed_classes(const std::vector<Shard>& shards, bool may_differ);

}  // namespace millrace

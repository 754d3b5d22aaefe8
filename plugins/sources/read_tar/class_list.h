// The names of classes that lie beside shards.
#pragma once

#include <string>
#include <vector>

#include "shards.h"

namespace millrace {

// The lines of classes.txt beside the shards, as `pipeline-data pack` writes it: names by label. Empty where there is none.
// Throws ErrorKind::data for an empty line, a duplicate name, and where two of these files differ; with `may_differ` they are
// then as good as none.
std::vector<std::string> listed_classes(const std::vector<Shard>& shards, bool may_differ);

}  // namespace millrace

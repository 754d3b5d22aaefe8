// Renamed keys. Files with old names, including those of earlier runs, are read as if they had the new ones.
#pragma once

#include <string>
#include <vector>

#include "millrace/detail/value.h"
#include "millrace/plugin.h"

namespace millrace {

// Renames them. `files`: see DocumentSources; a new name in an extended file is overruled. An old and a new name in one text both
// stay, and are an error. `warnings`: receives one line for each.
void rename_old_keys(Value& document, const Registry& registry, const std::vector<std::string>& files,
                     std::vector<std::string>& warnings);

}  // namespace millrace

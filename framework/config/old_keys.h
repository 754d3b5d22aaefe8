// Keys that have another name now. Files with the old one, those of older runs among them, are read as if they said the new one.
#pragma once

#include <string>
#include <vector>

#include "millrace/detail/value.h"
#include "millrace/plugin.h"

namespace millrace {

// Renames them. `files`: see DocumentSources; a new name in a file that is extended is overruled. An old and a new name in one
// text both stay, and are a mistake. `warnings`: gets one line for each.
void rename_old_keys(Value& document, const Registry& registry, const std::vector<std::string>& files,
                     std::vector<std::string>& warnings);

}  // namespace millrace

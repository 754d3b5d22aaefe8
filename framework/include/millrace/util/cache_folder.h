// The folder for files that can be fetched or made again, shared by all runs of a user.
#pragma once

#include <filesystem>
#include <string_view>

namespace millrace {

// The folder `below`, such as "weights", in $MILLRACE_CACHE, else in $XDG_CACHE_HOME/millrace, else in ~/.cache/millrace. Ignores
// relative paths in these variables. Empty if there is none. Creates nothing.
std::filesystem::path cache_folder(std::string_view below);

}  // namespace millrace

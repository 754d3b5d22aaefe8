// Where files are kept that can be had again: shared by all runs of a user.
#pragma once

#include <filesystem>
#include <string_view>

namespace millrace {

// The folder `below`, such as "weights", in $MILLRACE_CACHE, else in $XDG_CACHE_HOME/millrace, else in ~/.cache/millrace.
// Relative paths in these variables are passed over. Empty where there is none. Makes nothing.
std::filesystem::path cache_folder(std::string_view below);

}  // namespace millrace

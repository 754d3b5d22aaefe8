// The environment variables that Millrace reads, and those that seem to be meant as one of them.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace millrace {

std::span<const std::string_view> known_variables();  // without MILLRACE_, sorted; plugins of others may read more

// A line for each variable that is called almost as a known one. Others may be a user's own, as for ${env.MILLRACE_DATA}.
// `environment`: "NAME=value", up to a null pointer.
std::vector<std::string> misspelt_variables(const char* const* environment);

}  // namespace millrace

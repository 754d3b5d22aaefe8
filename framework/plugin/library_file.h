// Checks a library's file before it is opened.
#pragma once

#include <string>

namespace millrace {

// The missing part of a truncated library, for example after a failed copy. Opening such a file ends the process (SIGBUS). "" if
// the file is complete, or not a library at all.
std::string missing_part(const std::string& path);

}  // namespace millrace

// A library as a file, before it is opened.
#pragma once

#include <string>

namespace millrace {

// What is missing of a library whose file is cut off, as after a copy that failed. Opening such a file ends the process
// (SIGBUS).
// "": it is whole, or no library at all.
std::string missing_part(const std::string& path);

}  // namespace millrace

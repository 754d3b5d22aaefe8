// The verdict on a plugin.
#pragma once

#include <string>

namespace millrace {

// Asks every check of testkit/conformance.h of what a library registers, each in a process of its own that may take `seconds`,
// and prints a line for each. Whether all passed. REQUIRES: this process has one thread.
bool print_conformance(const std::string& file, double seconds);

}  // namespace millrace

// Checks a plugin's conformance.
#pragma once

#include <string>

namespace millrace {

// Runs every check of testkit/conformance.h on a library's registrations, each in a separate process limited to `seconds`, and
// prints a line for each. Returns true if all passed. REQUIRES: this process has one thread.
bool print_conformance(const std::string& file, double seconds);

}  // namespace millrace

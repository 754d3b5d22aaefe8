// What the bits of a run depend on besides its file and its data: versions, instructions, threads. A checkpoint holds it, and a
// run that goes on with something else says so.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "millrace/backend/backend.h"

namespace millrace {

// What this program, its ABI and the devices (DeviceInfo::versions) say, each value once: {"Millrace", "0.1.0"},
// {"cpu oneDNN", "2.6.3"}, {"cpu instructions", "AVX-512"}, {"cpu threads of a replica", "2 and 1"}.
std::map<std::string, std::string> versions_of(const std::vector<std::unique_ptr<Device>>& devices);

// "cpu oneDNN: 2.6.3 before, now 3.1.0; ..." of those in both; "": they are equal.
std::string version_changes(const std::map<std::string, std::string>& then, const std::map<std::string, std::string>& now);

}  // namespace millrace

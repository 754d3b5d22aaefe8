// What the bits of a run depend on besides its file and its data: versions, instructions, threads. A checkpoint holds it, and a
// run that goes on with something else says so.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "config/difference.h"
#include "config/plan.h"
#include "millrace/backend/backend.h"

namespace millrace {

using Versions = std::map<std::string, std::string>;  // by name

// What this program, its ABI and the devices (DeviceInfo::versions) say, each value once: {"Millrace", "0.1.0"},
// {"cpu oneDNN", "2.6.3"}, {"cpu instructions", "AVX-512"}, {"cpu threads of a replica", "2 and 1"}.
Versions versions_of(const std::vector<std::unique_ptr<Device>>& devices);

// Of the program, the commit that it was built from where that is known, and the plugins that may compute something: those of the
// pipeline's stages, and all with layers, losses, optimizers, backends or communicators: {"commit", "2c30c3e0"}, {"plugin
// augment", "2.0"}.
Versions versions_of_code(const Pipeline& pipeline, const Registry& registry);

// Those of both that are not equal.
std::vector<Difference> version_differences(const Versions& then, const Versions& now);
// "cpu oneDNN: 2.6.3 before, now 3.1.0; ..." of those in both; "": they are equal.
std::string version_changes(const Versions& then, const Versions& now);

}  // namespace millrace

// What the exact results of a run depend on, besides its file and data: versions, instructions, threads. Checkpoints hold it,
// and a resumed run reports changes.
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

// Versions of this program, its ABI and the devices (DeviceInfo::versions), each value once: {"Millrace", "0.1.0"}, {"cpu
// oneDNN", "2.6.3"}, {"cpu instructions", "AVX-512"}, {"cpu threads of a replica", "2 and 1"}.
Versions versions_of(const std::vector<std::unique_ptr<Device>>& devices);

// Versions of the program, its commit if known, and the plugins that may affect results: those of the pipeline's stages, and all
// with layers, losses, optimizers, backends or communicators: {"commit", "2c30c3e0"}, {"plugin augment", "2.0"}.
Versions versions_of_code(const Pipeline& pipeline, const Registry& registry);

// Entries of both that differ.
std::vector<Difference> version_differences(const Versions& then, const Versions& now);
// "cpu oneDNN: 2.6.3 before, now 3.1.0; ..." for entries of both; "" if all are equal.
std::string version_changes(const Versions& then, const Versions& now);

}  // namespace millrace

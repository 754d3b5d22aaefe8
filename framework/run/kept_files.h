// Writes what makes the folder of a run enough: pipeline.toml, the network's file, lists, and record.json (config/kept_run.h).
#pragma once

#include <filesystem>

#include "prepare/prepared_run.h"

namespace millrace {

// Lists of up to so many bytes are copied; of larger ones the record holds the hash alone.
inline constexpr std::uint64_t kLargestKeptList = std::uint64_t{16} << 20;

// `folder`: of the run. Throws Error(run) naming a file that cannot be written; a run that resumes warns instead, and keeps the
// files that it has.
void keep_run(const PreparedRun& run, const std::filesystem::path& folder);

}  // namespace millrace

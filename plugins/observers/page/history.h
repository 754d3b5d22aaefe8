// What a run has told before it was resumed.
#pragma once

#include <filesystem>

#include "story.h"

namespace millrace::page {

// Adds what metrics.jsonl in the folder says of steps up to `last_step` to the story. Lines that cannot be read are left out, and
// a file that is not there is no history.
void recall(const std::filesystem::path& folder, std::uint64_t last_step, Story& story);

}  // namespace millrace::page

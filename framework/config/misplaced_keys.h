// Keys in the wrong table of a pipeline.
#pragma once

#include <functional>
#include <string>

#include "millrace/detail/value.h"
#include "millrace/plugin.h"

namespace millrace {

// Reports, and removes from `root`, each key that is unknown in its table but exists in another, or resembles one there: "[run]
// has no key 'max_steps'; [stop] has it", "[run] has no key 'steps'; nearest is 'stop.max_steps'". Other unknown keys are left to
// the readers of their tables, which suggest keys of their own.
void report_misplaced_keys(Value& root, const Registry& registry, Diagnostics& errors);

// Returns the hint for a key that is in no table: "; [run] has it", "; nearest is 'stop.max_steps'"; "" where none
// is likely. Makes the list of all tables and their keys once.
std::function<std::string(const std::string&)> likely_places(Value& root, const Registry& registry);

}  // namespace millrace

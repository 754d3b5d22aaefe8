// Keys that stand in the wrong table of a pipeline.
#pragma once

#include <string>

#include "millrace/detail/value.h"
#include "millrace/plugin.h"

namespace millrace {

// Reports each key that its table lacks where another table has it, or one that is likely meant, and takes it out of `root`:
// "[run] has no key 'max_steps'; [stop] has it", "[run] has no key 'steps'; nearest is 'stop.max_steps'". All other unknown keys
// are left to the readers of their tables, which know what is near in them.
void report_misplaced_keys(Value& root, const Registry& registry, Diagnostics& errors);

// What a message says of a key that stands in no table: "; [run] has it", "; nearest is 'stop.max_steps'"; "" where none is
// likely.
std::string likely_place_clause(const std::string& key, Value& root, const Registry& registry);

}  // namespace millrace

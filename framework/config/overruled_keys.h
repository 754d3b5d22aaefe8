// Keys that a later text leaves without effect: a file that extends another one, or --set, names another flow, type of stage,
// schedule, optimizer or loss, and what the other file says is meant for the one that is gone.
#pragma once

#include <string>
#include <vector>

#include "millrace/detail/value.h"
#include "millrace/params.h"
#include "millrace/plugin.h"

namespace millrace {

// A text overrules the keys of files that its own extends; --set overrules those of all. `files`: see DocumentSources; they must
// outlive the result.
Overrules later_texts(const std::vector<std::string>& files);

// The type of a graph's stage: what its table's `stage` says, or else its name. Null: there is none of that name, or no such
// table.
const StageType* stage_type_of(const std::string& name, const Value* table, const Registry& registry);

// Takes them out of the tables of a graph's stages. A key that stands in the same text, or in a later one, stays: it is a
// mistake.
void drop_overruled_keys(Value& graph, const Registry& registry, const std::vector<std::string>& files);

}  // namespace millrace

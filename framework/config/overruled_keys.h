// Keys that a later text leaves without effect: a file that extends another one, or --set, names another flow, type of stage,
// schedule, optimizer or loss, so the extended file's keys for the previous one no longer apply.
#pragma once

#include <string>
#include <vector>

#include "millrace/detail/value.h"
#include "millrace/params.h"
#include "millrace/plugin.h"

namespace millrace {

// A text overrules keys of the files that its own extends; --set overrules those of all files. `files`: see DocumentSources; must
// outlive the result.
Overrules later_texts(const std::vector<std::string>& files);

// The type of a graph's stage: its table's `stage`, or else its name. Null without such a type or table.
const StageType* stage_type_of(const std::string& name, const Value* table, const Registry& registry);

// Removes such keys from the tables of a graph's stages. A key in the same text, or in a later one, stays: it is an error.
void drop_overruled_keys(Value& graph, const Registry& registry, const std::vector<std::string>& files);

// Renames keys of earlier versions, also those in the files of earlier runs. `files`: see DocumentSources; a new name in an
// extended file is overruled. An old and a new name in one text both stay, and are an error. `warnings`: receives one line for
// each.
void rename_old_keys(Value& document, const Registry& registry, const std::vector<std::string>& files,
                     std::vector<std::string>& warnings);

}  // namespace millrace

// The stages of a graph and their connections.
#pragma once

#include <string>
#include <vector>

#include "millrace/detail/value.h"
#include "millrace/templates/stage_type.h"

namespace millrace {

struct StagePlan {
  std::string name;  // the table's name
  const StageType* type = nullptr;
  Value table;     // its parameters, resolved; without `stage` and `from`
  Position at;     // its name's position in `flow`
  Position users;  // for a table in a base file: the --set that removed a key, or else the user's `extends`; else null
  // Position of its table, if the file has one; else `at`. Used in messages that are not about `flow`.
  const Position& table_at() const { return is_in_file(table.at()) ? table.at() : at; }
};

// From an output port to an input port; indices into FlowPlan::stages and StageType::outputs / inputs.
struct EdgePlan {
  int from_stage = 0, from_port = 0;
  int to_stage = 0, to_port = 0;
};

struct FlowPlan {
  std::string name;               // the graph's: "train"
  std::vector<StagePlan> stages;  // in flow order: edges only lead forward
  std::vector<EdgePlan> edges;
};

}  // namespace millrace

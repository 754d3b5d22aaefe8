// The parts of a pipeline's drawing.
#pragma once

#include <string>
#include <vector>

#include "drawn_network.h"

namespace millrace::generator {

// Shared by all parts of one drawing.
struct Drawing {
  Draw& draw;
  const Registry& registry;
  const DataSet& data;
  Task task;
  NetworkSize network;
  double share = 0.2;               // probability of a key
  std::vector<std::string> layers;  // in the network

  Value table(const std::string& stage, const Meanings& meanings = {}) const;  // drawn keys of a stage
};

// A graph's table under construction: its flow, and a table for each stage.
class GraphTable {
 public:
  void add(const std::string& type, Value table);  // the second of a type gets another name
  Value finish(Value keys) const;                  // these keys, then `flow` and the stages' tables

 private:
  Array flow_;
  Table stages_;
};

void add_source(Drawing& drawing, GraphTable& graph);
// From the source to images of the network's size, or larger ones. `name`: of the graph, for its files. `trains`: may include
// random stages.
void add_data_stages(Drawing& drawing, GraphTable& graph, const std::string& name, bool trains);
Value drawn_loss(Drawing& drawing);
void add_training(Drawing& drawing, GraphTable& graph);
void add_sinks(Drawing& drawing, GraphTable& graph);

}  // namespace millrace::generator

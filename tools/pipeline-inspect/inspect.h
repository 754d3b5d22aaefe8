// The output of pipeline-inspect. Every function returns text for standard output.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "config/plan.h"
#include "millrace/detail/types.h"
#include "millrace/observer.h"
#include "millrace/optimizer.h"
#include "millrace/util/group.h"
#include "millrace/util/load_plugins.h"

namespace millrace {

std::string list_everything(const Registry& registry);  // plugins, their types, and skipped libraries
std::string describe_plugin(const PluginInfo& plugin, const Registry& registry);
std::string describe_devices(const Registry& registry);
// Devices of all processes in the group, as a table; "" on ranks other than 0. All of them call it.
std::string describe_devices_of_ranks(const Registry& registry, Group& group);

std::string describe_stage(const StageType& type);
std::string describe_layer(const LayerType& type);
std::string describe_optimizer(const OptimizerType& type);
std::string describe_loss(const LossType& type);
std::string describe_observer(const ObserverType& type);

std::string describe_network(const Network& network);   // a table of layers
std::string describe_published(const Value& document);  // weights that a network's file names; "": none
// Backend "cpu"'s plan for training steps and inference with batches of `batch` images.
std::string describe_memory(const Network& network, const Registry& registry, std::uint32_t batch);
std::string list_parameters(const Network& network);  // one JSON object per line: name, kind, first values, shape
std::string describe_pipeline(const Pipeline& pipeline);
std::string describe_base(const std::string& file);  // its purpose, and its variables
// A short file that extends a base file, with the values of `sets`, and all other variables as comments; next to it the schema
// for editors, which its first line names. Returns the message for the user. Throws Error: it exists already, or a set value is
// wrong.
struct NewFile {
  std::string path, base, base_file;  // base: its name
  std::vector<std::string> sets;      // values of --set
};
std::string write_new_file(const NewFile& asked, const Registry& registry);
std::string describe_weights(const std::string& file, const Registry& registry);  // tensors, classes, image preparation
std::string list_tensors(const std::string& file);  // the weights' tensors, one JSON object per line: name, type, shape

// The same as a picture: Graphviz source, left to right. Dashed edges are the credits that flow back.
std::string draw_pipeline(const Pipeline& pipeline);

// Draws `dot` into an SVG file with Graphviz. On failure throws Error(run) with advice.
void write_svg(const std::string& dot, const std::string& file);

}  // namespace millrace

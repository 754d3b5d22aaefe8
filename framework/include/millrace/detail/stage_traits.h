// Properties of a stage type, and of a stage in its graph. Part of stage.h.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "millrace/detail/recipes.h"
#include "millrace/detail/tensor.h"
#include "millrace/detail/value.h"

namespace millrace {

class Batch;
struct CompileRequest;
class Device;
class Group;
class Network;
class Registry;
class Replica;
class RunServices;

struct Port {
  std::string name;     // "in", "out", "gradients", ...
  std::string payload;  // a payload type's name
};

enum class Concurrency {
  parallel,  // process() may run on several threads at once
  serial,    // one at a time, in order of arrival
};

// A table from which the stage can be made, and its input: for `pipeline-inspect --conformance`.
struct StageExample {
  std::string table;             // in TOML: "chance = 1". ${folder}: a folder, see `files`
  ImageShape image = {8, 8, 3};  // shape of images arriving at a stage after a source
  // Fills ${folder}, which is empty; null: it holds JPEG files of two classes.
  void (*files)(const std::string& folder) = nullptr;
};

// Declared by StageAttributes (stage.h).
struct StageTraits {
  std::vector<Port> inputs, outputs;
  Concurrency concurrency = Concurrency::parallel;
  bool per_replica = false;
  bool stepwise = false;
  bool any_image = false;
  RecipeRole recipe_role = RecipeRole::none;
  RecipeEffect recipe_effect = RecipeEffect::none;
  std::vector<std::string> writes;  // for sinks
  std::vector<StageExample> examples;
};

// A SampleTransform's place in the graph.
struct TransformSite {
  ImageShape image;  // shape of arriving images
  bool any_image = false;
  std::string name;
  std::uint64_t seed = 0, name_hash = 0;
};

// Names a stage in messages: "mine.toml:14:1: [train.augment]"; without a position, the table alone.
std::string place_of_stage(const Position& at, std::string_view graph, std::string_view name);

}  // namespace millrace

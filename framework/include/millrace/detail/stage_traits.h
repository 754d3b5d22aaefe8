// What is known of a type of stages, and of a stage where it stands. Part of stage.h.
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

// A table that the stage can be made from, and what it then works on: for `pipeline-inspect --conformance`.
struct StageExample {
  std::string table;             // in TOML: "chance = 1". ${folder}: a folder, see `files`
  ImageShape image = {8, 8, 3};  // of the images that arrive at a stage after a source
  // Fills ${folder}, which is empty; null: it holds two classes of JPEG files.
  void (*files)(const std::string& folder) = nullptr;
};

// What StageAttributes (stage.h) declares.
struct StageTraits {
  std::vector<Port> inputs, outputs;
  Concurrency concurrency = Concurrency::parallel;
  bool per_replica = false;
  bool stepwise = false;
  bool any_image = false;
  RecipeRole recipe_role = RecipeRole::none;
  RecipeEffect recipe_effect = RecipeEffect::none;
  std::vector<std::string> writes;  // of a sink
  std::vector<StageExample> examples;
};

// What a SampleTransform is told of where it stands.
struct TransformSite {
  ImageShape image;  // of the images that arrive
  bool any_image = false;
  std::string name;
  std::uint64_t seed = 0, name_hash = 0;
};

// How messages name a stage: "mine.toml:14:1: [train.augment]"; without a position the table alone.
std::string place_of_stage(const Position& at, std::string_view graph, std::string_view name);

}  // namespace millrace

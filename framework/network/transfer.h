// Weights from elsewhere: which parameters take the values of a file, under which names, and which begin with new values.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "millrace/backend/network.h"
#include "millrace/params.h"

namespace millrace {

// Another name for tensors of a file. `from` has at most one "*", any text; a "*" in `to` repeats that text.
// `to` = "" leaves the tensors out.
struct RenameRule {
  std::string from, to;

  static void describe(ParamSet<RenameRule>& set);
  std::string mistake() const;                                    // what is wrong with the rule itself; empty: nothing
  std::optional<std::string> apply(std::string_view name) const;  // nothing: the rule does not fit this name
};

// Whether a pattern (util/pattern.h) fits a parameter's name or the name of a layer or block that it belongs to: "fc" and
// "fc.*" both cover "fc.weight".
bool covers(std::string_view pattern, std::string_view parameter);
bool covers_any(const std::vector<std::string>& patterns, std::string_view parameter);

// The one that tells classes apart, in most networks. Null: no layer has parameters.
const Layer* last_layer_with_parameters(const Network& network);

// Whether its first values are random filters or matrices, which do harm when they are never trained; fixed biases do none.
bool begins_random(const Parameter& parameter);

// Every name that covers() could find in a network: of parameters, of their layers and of the blocks around them, sorted.
std::vector<std::string> coverable_names(const Network& network);

// Which weights a network starts from.
struct WeightsChoice {
  std::string file;    // or a URL; "": none
  std::string inside;  // the table of the file, see read_tensors()

  static void describe(ParamSet<WeightsChoice>& set);
};

// [network]. All its other keys are variables of the network.
struct NetworkParams {
  std::string use;                  // a network of the zoo, or a file
  WeightsChoice weights;            // to start from; no file: initialisers
  std::string sha256;               // that the file must have, 64 hexadecimal digits; "": any
  std::vector<std::string> fresh;   // `new`: patterns of layers that take nothing from the file
  std::vector<std::string> freeze;  // patterns of layers or parameters that keep their values
  std::vector<RenameRule> rename;
  std::string preprocessing =
      "compare";  // with what the weights were validated with (recipe/inference_recipe.h); "mine": this file's is meant

  static void describe(ParamSet<NetworkParams>& set);
};

struct WeightsSource {
  std::string file;                // safetensors, or a state dict of PyTorch
  std::vector<std::string> fresh;  // patterns of layers that take nothing from the file
  std::vector<RenameRule> rename;  // for a name, the first rule that fits counts
  std::string sha256 = {};         // that the file must have; "": any
  std::string url = {};            // what the file was fetched from; "": it was not
  std::string inside = {};         // the table of the file, see read_tensors()
  bool other_classes = false;      // the last layer begins new where the file's has another number of outputs
  bool is_measured = false;        // nothing is trained, so no layer can begin new
};

// Values of every parameter in the network's order; empty for those that `fresh` covers or that are unused and not there. Throws
// Error(data) for a file that cannot be read. Throws Error(usage) that lists all that does not fit: parameters that the file
// lacks and a loss needs, tensors of another shape, tensors that belong to no layer, rules that fit nothing, two tensors under
// one name.
std::vector<std::vector<float>> load_weights(const WeightsSource& source, const Network& network);
// The same; `new_layer` gets the name of the layer that begins new as `other_classes` says, or stays as it is.
std::vector<std::vector<float>> load_weights(const WeightsSource& source, const Network& network, std::string& new_layer);

}  // namespace millrace

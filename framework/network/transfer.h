// Imports weights: which parameters take values from a file, under which names, and which start with new values.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "millrace/backend/network.h"
#include "millrace/params.h"

namespace millrace {

// Another name for tensors of a file. `from` has at most one "*", which matches any text; "*" in `to` repeats that text. `to` =
// "" drops the tensors.
struct RenameRule {
  std::string from, to;

  static void describe(ParamSet<RenameRule>& set);
  std::string mistake() const;                                    // describes a mistake in the rule itself; empty: none
  std::optional<std::string> apply(std::string_view name) const;  // empty if the rule does not match
};

// Whether a pattern (util/pattern.h) matches a parameter's name or the name of its layer or block: "fc" and "fc.*" both cover
// "fc.weight".
bool covers(std::string_view pattern, std::string_view parameter);
bool covers_any(const std::vector<std::string>& patterns, std::string_view parameter);

// In most networks, the layer that distinguishes classes. Null if no layer has parameters.
const Layer* last_layer_with_parameters(const Network& network);

// Whether it is initialised with random filters or matrices, which do harm if they are never trained; fixed biases do none.
bool begins_random(const Parameter& parameter);

// Every name that covers() could match: parameters, their layers and the blocks around them, sorted.
std::vector<std::string> coverable_names(const Network& network);

// The weights that a network starts from.
struct WeightsChoice {
  std::string file;    // or a URL; "": none
  std::string inside;  // the table within the file, see read_tensors()

  static void describe(ParamSet<WeightsChoice>& set);
};

// [network]. All other keys are variables of the network.
struct NetworkParams {
  std::string use;                  // a network of the zoo, or a file
  WeightsChoice weights;            // to start from; without a file: initialisers
  std::string sha256;               // expected sum of the file, 64 hexadecimal digits; "": any
  std::vector<std::string> fresh;   // `new`: patterns of layers that take no values from the file
  std::vector<std::string> freeze;  // patterns of layers or parameters that keep their values
  std::vector<RenameRule> rename;
  std::string preprocessing =
      "compare";  // with the settings of the weights' validation (prepare/inference_recipe.h); "mine": this file's settings

  static void describe(ParamSet<NetworkParams>& set);
};

struct WeightsSource {
  std::string file;                // safetensors, or a PyTorch state dict
  std::vector<std::string> fresh;  // patterns of layers that take no values from the file
  std::vector<RenameRule> rename;  // the first matching rule applies
  std::string sha256 = {};         // expected sum of the file; "": any
  std::string url = {};            // where the file was fetched from; "": local
  std::string inside = {};         // the table within the file, see read_tensors()
  bool other_classes = false;      // the last layer starts new if the file's has another number of outputs
  bool is_measured = false;        // nothing is trained, so no layer can start new
};

// Values of every parameter in the network's order; empty for those that `fresh` covers, and for unused ones missing from the
// file. Throws Error(data) for an unreadable file. Throws Error(usage) with all mismatches: missing parameters that a loss needs,
// tensors of another shape or without a layer, rules that match nothing, two tensors under one name.
std::vector<std::vector<float>> load_weights(const WeightsSource& source, const Network& network);
// Also sets `metadata` to the file's, and `new_layer` to the layer that starts new because of `other_classes`; otherwise leaves
// it unchanged.
std::vector<std::vector<float>> load_weights(const WeightsSource& source, const Network& network, std::string& new_layer,
                                             std::map<std::string, std::string>& metadata);

}  // namespace millrace

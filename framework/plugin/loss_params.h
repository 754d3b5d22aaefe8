// The table `loss` of a stage: the name of a loss, its parameters, and the reduction. And the list `auxiliary` of such tables.
#pragma once

#include <string_view>

#include "millrace/plugin.h"

namespace millrace {

inline constexpr const char* kDefaultLoss = "cross_entropy";  // of a stage whose table names none

// What an entry of a stage's list `auxiliary` says; null: nothing.
struct AuxiliaryEntry {
  const Value *output, *loss;
};
std::vector<AuxiliaryEntry> auxiliary_entries(const Value& stage_table);

// Adds what is wrong with the losses in a stage's table. `owner` names the stage's table: "[train.forward_backward]".
void check_loss_table(const Value& stage_table, const Registry& registry, const std::string& owner, Diagnostics& errors);

// Whether a `loss` is the one that a stage has without it, whatever its keys.
bool is_default_loss(const Value& loss);
// The `loss` of a training for a stage that measures alone: without what concerns gradients, and without weights of classes that
// are counted in the data of each graph.
Value measured_loss(Value loss);

// `class_weights` of a loss may be a word, for numbers that depend on the data, or a table by name (stages/class_weights.h).
inline constexpr const char *kClassWeights = "class_weights", *kMedianFrequency = "median-frequency", *kBalanced = "balanced";
bool is_word(const Value& value, std::string_view word);
Value list_of(const std::vector<double>& numbers, const Position& at);

}  // namespace millrace

// A stage's table `loss`: the name of a loss, its parameters, and the reduction. And the list `auxiliary` of such tables.
#pragma once

#include <string_view>

#include "millrace/plugin.h"

namespace millrace {

inline constexpr const char* kDefaultLoss = "cross_entropy";  // for a stage whose table names none

// An entry of a stage's list `auxiliary`; null: not given.
struct AuxiliaryEntry {
  const Value *output, *loss;
};
std::vector<AuxiliaryEntry> auxiliary_entries(const Value& stage_table);

// Reports mistakes in the losses of a stage's table. `owner` names the stage's table: "[train.forward_backward]".
void check_loss_table(const Value& stage_table, const Registry& registry, const std::string& owner, Diagnostics& errors);

// Whether a `loss` equals the default of a stage without one, whatever its keys.
bool is_default_loss(const Value& loss);
// A training's `loss` for a stage that only measures: without keys about gradients, and without class weights counted in each
// graph's data.
Value measured_loss(Value loss);

// A loss's `class_weights` may be a word, for numbers that depend on the data, or a table by name (prepare/class_weights.h).
inline constexpr const char *kClassWeights = "class_weights", *kMedianFrequency = "median-frequency", *kBalanced = "balanced";
bool is_word(const Value& value, std::string_view word);
Value list_of(const std::vector<double>& numbers, const Position& at);

}  // namespace millrace

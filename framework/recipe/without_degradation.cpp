// Prepares a user's photographs for a network that restores images, by the effects that stages declare (RecipeEffect).
#include <algorithm>

#include "millrace/plugin.h"
#include "recipe/inference_recipe.h"

namespace millrace {
namespace {

bool is_stage_of(RecipeEffect effect, const InferenceRecipe::StageUse& stage, const Registry& registry) {
  const StageType* const type = registry.stages().find(stage.type);
  return type != nullptr && type->recipe_effect == effect;
}

// Whether the stage has the effect, or one of its keys does and differs from its default.
bool has_effect(RecipeEffect effect, const InferenceRecipe::StageUse& stage, const Registry& registry) {
  const StageType* const type = registry.stages().find(stage.type);
  if (type == nullptr) return false;
  return type->recipe_effect == effect || std::ranges::any_of(type->params, [&](const ParamInfo& key) {
           const Value* const value = stage.table.find(key.name);
           return key.in_recipes == effect && value != nullptr && !is_default(*type, key.name, *value);
         });
}

// Resets the stage's keys of this effect to their defaults.
void reset(RecipeEffect effect, InferenceRecipe::StageUse& stage, const Registry& registry) {
  const StageType* const type = registry.stages().find(stage.type);
  if (type == nullptr) return;
  for (const ParamInfo& key : type->params) {
    if (key.in_recipes != effect) continue;
    if (const Value* const usual = type->defaults.find(key.name)) {
      stage.table.set(key.name, *usual);
    } else {
      stage.table.erase(key.name);
    }
  }
}

void leave_out(RecipeEffect effect, InferenceRecipe& recipe, const Registry& registry) {
  std::erase_if(recipe.prepare, [&](const InferenceRecipe::StageUse& stage) { return is_stage_of(effect, stage, registry); });
  for (InferenceRecipe::StageUse& stage : recipe.prepare) reset(effect, stage, registry);
}

}  // namespace

bool is_default(const TypeDescription& type, std::string_view key, const Value& value) {
  const Value* const usual = type.defaults.find(key);
  if (usual == nullptr) return false;
  if (usual->is_number() && value.is_number()) return usual->number() == value.number();
  return usual->kind() == value.kind() && to_toml(*usual) == to_toml(value);
}

bool restores(const InferenceRecipe& recipe) {
  const Value* const kind = recipe.target.find("kind");
  return recipe.output == "image" && kind != nullptr && kind->kind() == Value::Kind::text && kind->text() == "image";
}

bool takes_own_size(const InferenceRecipe& recipe, const Registry& registry) {
  return restores(recipe) && std::ranges::none_of(recipe.prepare, [&](const InferenceRecipe::StageUse& stage) {
           return has_effect(RecipeEffect::resizes, stage, registry);
         });
}

InferenceRecipe without_training_degradation(InferenceRecipe recipe, const Registry& registry) {
  if (!restores(recipe)) return recipe;
  const bool own_size = takes_own_size(recipe, registry);
  leave_out(RecipeEffect::spoils, recipe, registry);
  if (!own_size) return recipe;
  leave_out(RecipeEffect::states_size, recipe, registry);
  leave_out(RecipeEffect::cuts, recipe, registry);
  return recipe;
}

InferenceRecipe without_stated_sizes(InferenceRecipe recipe, const Registry& registry) {
  for (InferenceRecipe::StageUse& stage : recipe.prepare) {
    if (!has_effect(RecipeEffect::cuts, stage, registry)) reset(RecipeEffect::states_size, stage, registry);
  }
  return recipe;
}

InferenceRecipe with_stated_size(InferenceRecipe recipe, const ImageShape& image, const Registry& registry) {
  for (InferenceRecipe::StageUse& stage : recipe.prepare) {
    const StageType* const type = registry.stages().find(stage.type);
    if (type == nullptr) continue;
    for (const ParamInfo& key : type->params) {
      if (key.in_recipes != RecipeEffect::states_size) continue;
      stage.table.set(key.name, Value(Array{Value(image.height), Value(image.width)}));
    }
  }
  return recipe;
}

}  // namespace millrace

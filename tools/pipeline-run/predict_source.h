// Chooses the sources for the names of --predict.
#pragma once

#include <string>
#include <vector>

#include "millrace/detail/value.h"
#include "recipe/inference_recipe.h"

namespace millrace {

// A text escaped for a pipeline file, where ${...} would be a reference.
std::string escaped(const std::string& text);
Value escaped(const Value& value);  // escapes its texts

// The names of the numbers that the network predicts, a list of texts; null if unknown.
const Value* names_of_numbers(const InferenceRecipe& recipe);

// The table of a source that reads `data`, absolute paths or URLs, one after the other. `labels`: "", none; "path", "column" or
// "shards", labels of folders, lists and shards, or label images in shards; "column" also of numbers in lists; else a folder of
// label images, or of target pictures. Throws Error(usage) if data are ambiguous, or do not fit the network's result.
Value source_of(const std::vector<std::string>& data, const std::string& labels, const InferenceRecipe& recipe);

}  // namespace millrace

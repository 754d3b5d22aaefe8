// Which source reads what --predict names.
#pragma once

#include <string>
#include <vector>

#include "millrace/detail/value.h"
#include "recipe/inference_recipe.h"

namespace millrace {

// A text as a pipeline's file has it, where ${...} would be a reference.
std::string escaped(const std::string& text);
Value escaped(const Value& value);  // its texts

// The names of the numbers that the network predicts, a list of texts; null: not known.
const Value* names_of_numbers(const InferenceRecipe& recipe);

// The table of a source that reads `data`, absolute paths or URLs, one after the other. `labels`: "", none; "path", "column" or
// "shards", labels of folders, lists and shards, or label images in shards; "column" also of numbers in lists; else a folder of
// label images, or of the pictures that the network is to make. Throws Error(usage) for what cannot be told apart, or does not
// fit the network's result.
Value source_of(const std::vector<std::string>& data, const std::string& labels, const InferenceRecipe& recipe);

}  // namespace millrace

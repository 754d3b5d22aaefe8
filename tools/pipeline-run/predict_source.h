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

bool is_image_file(const std::string& path);  // of this machine, by its name

// A list of images, as a text of comma-separated values: for read_list.
std::string list_of(const std::vector<std::string>& paths);

// A path that means the same in every folder. URLs and absolute paths stay as they are.
std::string absolute_path(const std::string& path);

// The table of a source that reads `data`, an absolute path or a URL. `labels`: "", none; "path", "column" or "shards", labels of
// folders, lists and shards, or label images in shards; else a folder of label images, or of the pictures that the network is to
// make. Throws Error(usage) for what cannot be told apart, or does not fit the network's result.
Value source_of(const std::string& data, const std::string& labels, const InferenceRecipe& recipe);

}  // namespace millrace

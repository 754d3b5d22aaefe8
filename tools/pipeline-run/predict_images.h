// Resolves the names of --predict: image files, folders, lists, shards and patterns, in any mixture, local or at URLs.
#pragma once

#include <string>
#include <vector>

#include "made_files.h"

namespace millrace {

bool is_image_file(const std::string& path);  // by its name; local, or at a URL

// A list of images as comma-separated values, for read_list.
std::string list_of(const std::vector<std::string>& paths);

// A path that is valid from every folder. URLs and absolute paths stay unchanged.
std::string absolute_path(const std::string& path);

// Absolute paths and URLs, in the given order; a local pattern is replaced by its matches, sorted. Patterns of shards stay for
// their source. Throws Error(usage), listing all missing names if there are several.
std::vector<std::string> named_images(const std::vector<std::string>& names);

// Inputs of sources, in the order of the names.
struct PredictedImages {
  std::vector<std::string> data;  // folders, lists, and patterns of shards
  std::string below;              // the innermost folder that contains all images
};

// Writes lists of image files into `folder`. REQUIRES: named_images().
PredictedImages readable_images(const std::vector<std::string>& named, const std::string& folder, MadeFiles& files);

}  // namespace millrace

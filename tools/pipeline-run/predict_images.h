// What --predict names: image files, folders, lists, shards and patterns, in any mixture, at any place.
#pragma once

#include <string>
#include <vector>

#include "made_files.h"

namespace millrace {

bool is_image_file(const std::string& path);  // by its name; of this machine, or at a URL

// A list of images, as a text of comma-separated values: for read_list.
std::string list_of(const std::vector<std::string>& paths);

// A path that means the same in every folder. URLs and absolute paths stay as they are.
std::string absolute_path(const std::string& path);

// Absolute paths and URLs, in the given order; what a pattern of this machine fits stands in place of it, sorted. Patterns of
// shards stay: their source knows them. Throws Error(usage) that names all which are not there, where there are several names.
std::vector<std::string> named_images(const std::vector<std::string>& names);

// What sources read, in the order of the names.
struct PredictedImages {
  std::vector<std::string> data;  // folders, lists, and patterns of shards
  std::string below;              // the innermost folder that holds all images
};

// Image files stand in lists in `folder`. REQUIRES: named_images().
PredictedImages readable_images(const std::vector<std::string>& named, const std::string& folder, MadeFiles& files);

}  // namespace millrace

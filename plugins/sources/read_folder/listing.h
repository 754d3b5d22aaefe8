// The image files below a folder, in the order that defines their indices: bytewise by path.
#pragma once

#include <re2/re2.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "millrace/util/files.h"

namespace millrace {

struct ImageListing {
  PathList paths;                      // below the root: "cat/young/0001.jpg"
  std::vector<std::int32_t> labels;    // by path
  std::vector<std::uint32_t> bytes;    // file sizes by path: saturated_size()
  std::vector<std::string> classes;    // by label
  std::vector<std::uint64_t> counts;   // images by label
  std::size_t largest = 0;             // size of the largest file in bytes
  std::uint64_t fingerprint = 1;       // hash of names, sizes and versions
  LeftOut left_out;                    // files that seem to be images or classes but are left out
  std::string unused_patterns;         // unused leave_out patterns, for a warning; empty if all match
  std::size_t folders = 0;             // class folders with images
  std::size_t folders_of_folders = 0;  // those whose images all lie in folders below
  std::string folder_of_folders;       // one of them: "train/cat"
  std::vector<std::string> masks;      // named like label images of photographs in the same folder: "cat/1_mask.png"
  std::set<std::string> mask_names;    // patterns of their names: "*_mask.*"

  std::size_t memory() const {
    return paths.memory() + labels.capacity() * sizeof(std::int32_t) + bytes.capacity() * sizeof(std::uint32_t);
  }
};

struct ListingOptions {
  std::string root;  // a URL
  Extensions extensions;
  std::vector<std::string> classes;    // empty: those found, sorted bytewise
  std::unique_ptr<const RE2> label;    // its first group is the class; null: the folder is
  bool labelled = true;                // false: images lie anywhere and have no class
  std::vector<std::string> leave_out;  // patterns of paths below the root
  std::string table;                   // the source's table, "train.read", for messages
};

// Throws ErrorKind::data if there is nothing to train on, and the errors of Storage::list().
ImageListing list_images(Storage& storage, const ListingOptions& options);

}  // namespace millrace

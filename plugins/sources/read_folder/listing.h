// The image files below a folder, in the order that defines their indices: bytewise by path.
#pragma once

#include <re2/re2.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "millrace/files.h"

namespace millrace {

struct ImageListing {
  PathList paths;                     // below the root: "cat/young/0001.jpg"
  std::vector<std::int32_t> labels;   // by path
  std::vector<std::string> classes;   // by label
  std::vector<std::uint64_t> counts;  // of images, by label
  std::size_t largest = 0;            // bytes of the largest file
  std::uint64_t fingerprint = 1;      // of names, sizes and versions
  std::uint64_t left_out = 0;         // files that seem to be images, and whose extension is none of those asked for
  std::string left_out_name;          // one of these
  std::uint64_t dangling = 0;         // links that lead nowhere and are not named as images are; one that is becomes a bad sample
  std::string dangling_name;          // one of these

  std::size_t memory() const { return paths.memory() + labels.capacity() * sizeof(std::int32_t); }
};

struct ListingOptions {
  std::string root;  // a URL
  Extensions extensions;
  std::vector<std::string> classes;  // empty: those found, sorted bytewise
  std::unique_ptr<const RE2> label;  // its first group is the class; null: the folder is
  bool labelled = true;              // false: images lie anywhere and have no class
};

// Throws ErrorKind::data when there is nothing to train on, and what Storage::list() throws.
ImageListing list_images(Storage& storage, const ListingOptions& options);

}  // namespace millrace

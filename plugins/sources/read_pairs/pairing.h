// Files of two folders, matched by name.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "millrace/util/files.h"

namespace millrace {

// Pairs, sorted bytewise by the images' names.
struct Pairing {
  PathList images, targets;          // below their folders; without targets the second is empty
  std::vector<std::uint32_t> bytes;  // image sizes: saturated_size()
  std::size_t largest = 0;           // size of the largest pair in bytes
  std::uint64_t fingerprint = 1;
  std::vector<std::string> left_out;   // files without a partner, as URLs, images first
  LeftOut not_images;                  // apparent images whose ending is not wanted
  std::vector<std::string> not_found;  // listed names without an image
  std::string unused_patterns;         // unused leave_out patterns, for a warning; empty if all match
  std::string assumed;                 // name endings taken for suffixes without being given; empty: none

  std::size_t memory() const { return images.memory() + targets.memory() + bytes.capacity() * sizeof(std::uint32_t); }
};

struct PairingFolder {
  Storage& storage;
  std::string url;
  std::string suffix;  // suffix of names, before the extension, that the other folder's names lack
  std::string folder;  // part of paths that the other folder's paths lack: "rgb" of "day/rgb/1.png"
};

struct PairingRule {
  Extensions extensions;
  std::vector<std::string> leave_out;  // patterns of paths below both folders
  bool by_name = false;                // only names match, whatever folder files lie in
  bool finds_suffixes = true;          // used if no name pairs as written
  std::set<std::string> listed;        // names, without suffix and extension; empty: all
};

// An image and its partner have the same path below their folders, except for suffix, extension and `folder`. If no image has a
// partner, no suffix is given, and all names of a folder share an ending such as "_leftImg8bit", it becomes the suffix. In one
// folder without suffixes, x.jpg is the image and x.png its target. Files that are not listed are ignored. Throws ErrorKind::data
// if there is no image, or if two files of one folder differ only in the extension.
Pairing pair_files(const PairingFolder& images, const std::optional<PairingFolder>& targets, const PairingRule& rule);

}  // namespace millrace

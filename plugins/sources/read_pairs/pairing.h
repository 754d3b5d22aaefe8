// Files of two folders, matched by their names.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "millrace/util/files.h"

namespace millrace {

// Pairs in the bytewise order of the images' names.
struct Pairing {
  PathList images, targets;          // below their folders; without targets the second is empty
  std::vector<std::uint32_t> bytes;  // of the images: saturated_size()
  std::size_t largest = 0;           // bytes of the largest pair
  std::uint64_t fingerprint = 1;
  std::vector<std::string> left_out;   // files without a partner, as URLs, images first
  LeftOut not_images;                  // files that seem to be images, and whose ending is none of those asked for
  std::vector<std::string> not_found;  // names of the list that no image has
  std::string unused_patterns;         // of leave_out, for a warning; empty: each fits something
  std::string assumed;                 // which endings of names were taken for suffixes that nothing named; empty: none

  std::size_t memory() const { return images.memory() + targets.memory() + bytes.capacity() * sizeof(std::uint32_t); }
};

struct PairingFolder {
  Storage& storage;
  std::string url;
  std::string suffix;  // of names, before their extension, that the other folder's names do not have
  std::string folder;  // of paths, that the other folder's paths do not have: "rgb" of "day/rgb/1.png"
};

struct PairingRule {
  Extensions extensions;
  std::vector<std::string> leave_out;  // patterns of paths below both folders
  bool by_name = false;                // wherever files lie, their names alone tell who belongs together
  bool finds_suffixes = true;          // where no name pairs as it is written
  std::set<std::string> listed;        // names, without suffix and extension; empty: all
};

// An image and its partner have the same path below their folders, but for suffix, extension and `folder`. Where not one image
// has a partner, and all names of a folder have one ending, such as "_leftImg8bit", that is taken for its suffix, if no suffix is
// given. In one folder without suffixes, x.jpg is the image and x.png its target. Files that are not among the listed ones are
// not looked at. Throws ErrorKind::data when there is no image, or when two files of one folder have the same name but for the
// extension.
Pairing pair_files(const PairingFolder& images, const std::optional<PairingFolder>& targets, const PairingRule& rule);

}  // namespace millrace

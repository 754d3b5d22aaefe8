// Files of two folders, matched by their names.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "millrace/files.h"

namespace millrace {

// Pairs in the bytewise order of the images' names.
struct Pairing {
  PathList images, targets;  // below their folders; without targets the second is empty
  std::size_t largest = 0;   // bytes of the largest pair
  std::uint64_t fingerprint = 1;
  std::vector<std::string> left_out;  // files without a partner, as URLs, images first

  std::size_t memory() const { return images.memory() + targets.memory(); }
};

struct PairingFolder {
  Storage& storage;
  std::string url;
  std::string suffix;  // of names, before their extension, that the other folder's names do not have
};

// An image and its partner have the same path below their folders, but for suffix and extension.
// Throws ErrorKind::data when there is no image, or when two files of one folder have the same name but for the extension.
Pairing pair_files(const PairingFolder& images, const std::optional<PairingFolder>& targets, const Extensions& extensions);

}  // namespace millrace

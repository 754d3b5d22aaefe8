// Sends a file of weights to ranks that have no copy.
#pragma once

#include <optional>
#include <string>

#include "files/scratch_folder.h"
#include "millrace/util/group.h"

namespace millrace {

class SentWeights {
 public:
  // `path`: this rank's initial weights; "": none. Each rank fetches URLs itself. All ranks make one. The first rank with its
  // file sends it to all that lack theirs. Throws Error(storage) if it cannot be stored.
  SentWeights(const std::string& path, Group& group);

  bool is_copy() const { return copy_.has_value(); }
  const std::string& path() const { return path_; }  // path to read, valid while this object lives

 private:
  void keep(const std::vector<std::byte>& bytes);

  std::string path_;
  std::optional<ScratchFolder> copy_;
};

std::string checksum_of_file(const std::string& path);

}  // namespace millrace

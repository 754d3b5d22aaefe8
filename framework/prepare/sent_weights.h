// A file of weights on its way from a rank that has it to those that have no copy.
#pragma once

#include <optional>
#include <string>

#include "files/scratch_folder.h"
#include "millrace/util/group.h"

namespace millrace {

class SentWeights {
 public:
  // `path`: of the weights that this rank starts from; "": there are none. A URL is each rank's own affair. All ranks make one.
  // The first of them that has its file sends it to all that lack theirs. Throws Error(storage) where it cannot be kept.
  SentWeights(const std::string& path, Group& group);

  bool is_copy() const { return copy_.has_value(); }
  const std::string& path() const { return path_; }  // where to read them, while this object lives

 private:
  void keep(const std::vector<std::byte>& bytes);

  std::string path_;
  std::optional<ScratchFolder> copy_;
};

std::string checksum_of_file(const std::string& path);

}  // namespace millrace

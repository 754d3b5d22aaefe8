// A .tar.gz that never grows beyond a limit.
#pragma once

#include <cstddef>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace millrace::gpu {

// Each file is a gzip member of its own, so its compressed size is known before it is added; readers see one stream.
// Throws Error(run) when the disk refuses a write.
class Archive {
 public:
  Archive(std::filesystem::path file, std::size_t most_bytes);  // appears under this name with finish()

  // `name` has at most 99 characters. false: it did not fit, and stands in left_out().
  bool add(const std::string& name, const std::string& bytes);
  void finish();

  const std::vector<std::string>& left_out() const { return left_out_; }

 private:
  const std::filesystem::path file_, part_;
  const std::size_t most_bytes_;
  std::ofstream stream_;
  std::size_t bytes_ = 0;
  std::vector<std::string> left_out_;
};

// The beginning and the end of a file, with a line in between that says how much is missing. At most `most` bytes of it.
std::string cut_file(const std::filesystem::path& file, std::size_t most);

}  // namespace millrace::gpu

#include "made_files.h"

#include <algorithm>
#include <fstream>
#include <iterator>

#include "millrace/util/output_file.h"

namespace millrace {

namespace fs = std::filesystem;

MadeFiles::~MadeFiles() {
  std::error_code ignored;
  for (const Made& made : files_) {
    if (!made.before) {
      fs::remove(made.path, ignored);
      continue;
    }
    try {
      std::ofstream(made.path, std::ios::binary) << *made.before;
    } catch (...) {  // another error is being thrown
    }
  }
  for (auto folder = folders_.rbegin(); folder != folders_.rend(); ++folder) fs::remove(*folder, ignored);  // if it is empty
}

void MadeFiles::write(const fs::path& path, const std::string& text) {
  std::error_code ignored;
  std::vector<fs::path> missing;
  for (fs::path folder = fs::absolute(path).parent_path(); !fs::exists(folder, ignored) && folder.has_relative_path();
       folder = folder.parent_path()) {
    missing.push_back(folder);
  }
  folders_.insert(folders_.end(), missing.rbegin(), missing.rend());
  if (!has(path)) {
    Made made{path, std::nullopt};
    if (std::ifstream before(path, std::ios::binary); before) {
      made.before.emplace(std::istreambuf_iterator<char>(before), std::istreambuf_iterator<char>());
    }
    files_.push_back(std::move(made));
  }
  OutputFile file(path.string());
  file.write(text);
  file.commit();
}

bool MadeFiles::has(const fs::path& path) const {
  return std::any_of(files_.begin(), files_.end(), [&](const Made& made) { return made.path == path; });
}

void MadeFiles::keep() {
  files_.clear();
  folders_.clear();
}

}  // namespace millrace

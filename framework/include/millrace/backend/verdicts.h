// Stores in a file which library kernels proved right or wrong on this machine, so that each is checked once.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>

namespace millrace {

// Why a kernel is wrong; empty if it is right.
using Fault = std::string;

// The file in "checks" of the user's cache folder (util/cache_folder.h) for the given dependencies, such as the processor and the
// library's version. Empty without a cache folder.
std::filesystem::path verdict_file(std::string_view depends_on);

// The file holds a line for each verdict, with a checksum: kernels with damaged or truncated lines are checked again. Each line
// is appended by a single write, so that processes may share the file. If the file cannot be written, verdicts last as long as
// the process.
//
// Thread-safe.
class Verdicts {
 public:
  using Warn = std::function<void(std::string_view)>;

  explicit Verdicts(std::filesystem::path file);  // an empty path: in memory only

  // `key`: one line that names the kernel and its shape.
  std::optional<Fault> find(const std::string& key) const;
  void put(const std::string& key, const Fault& fault);
  // The stored verdict, or that of check() if there is none yet.
  Fault find_or(const std::string& key, const std::function<Fault()>& check);
  // Calls `warn` at the first call for this key.
  void warn_once(const std::string& key, const std::string& message, const Warn& warn);

 private:
  const std::filesystem::path file_;
  mutable std::mutex mutex_;
  std::map<std::string, Fault> verdicts_;
  std::set<std::string> named_;
};

}  // namespace millrace

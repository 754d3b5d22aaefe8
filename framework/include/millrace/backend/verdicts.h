// Which kernels of libraries were found right or wrong on this machine: remembered in a file, so that each is checked once.
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

// What was wrong with a kernel; empty: nothing.
using Fault = std::string;

// The file in "checks" of the user's cache folder (util/cache_folder.h) for what verdicts depend on, such as the processor
// and the library's version. Empty where there is no cache folder.
std::filesystem::path verdict_file(std::string_view depends_on);

// The file holds a line for each verdict, with a checksum: what is damaged or cut short is checked again. Lines are appended by
// one write each, so that processes may share the file. Where it cannot be written, verdicts last as long as the process.
//
// Thread-safe.
class Verdicts {
 public:
  using Warn = std::function<void(std::string_view)>;

  explicit Verdicts(std::filesystem::path file);  // an empty path: in memory only

  // `key`: one line that names the kernel and its shape.
  std::optional<Fault> find(const std::string& key) const;
  void put(const std::string& key, const Fault& fault);
  // The verdict, of check() where there is none yet.
  Fault find_or(const std::string& key, const std::function<Fault()>& check);
  // Calls `warn` the first time that it is asked to for this key.
  void warn_once(const std::string& key, const std::string& message, const Warn& warn);

 private:
  const std::filesystem::path file_;
  mutable std::mutex mutex_;
  std::map<std::string, Fault> verdicts_;
  std::set<std::string> named_;
};

}  // namespace millrace

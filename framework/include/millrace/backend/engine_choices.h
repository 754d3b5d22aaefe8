// Results of trials of engines on this machine (a library's, or kernels of our own that are chosen by shape): which one to use,
// and whether it computes correctly. A file keeps them for later processes.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>

namespace millrace {

// Why a kernel is wrong; empty if it is right.
using Fault = std::string;

// One entry: a line with the lengths of key and text and a checksum of both, then key and text, and the end of a line.
std::string encode_choice(const std::string& key, const std::string& text);
// Removes the entry at the beginning of `bytes`. Empty if there is none.
std::optional<std::pair<std::string, std::string>> take_choice(std::string_view& bytes);

// The file for one model of device and everything else that choices depend on, such as the versions of libraries: in "engines" of
// the user's cache folder (util/cache_folder.h). Empty without a cache folder. Keys name the shape, and what else differs within
// a process.
std::filesystem::path engine_choices_file(std::string_view device, std::string_view versions);

// The file is read once, then appended to: each entry is one write at the file's end, so several processes may share it, and a
// killed process's choices remain. Damaged or incomplete entries, and any other content, are skipped. Of equal keys the last one
// counts. If the file cannot be read or written, choices last as long as the process.
//
// Thread-safe; throws no errors of its own.
class EngineChoices {
 public:
  using Warn = std::function<void(std::string_view)>;

  explicit EngineChoices(std::filesystem::path file = {});  // an empty path: in memory only

  std::optional<std::string> find(const std::string& key) const;
  // Any bytes; written at once unless already known. Calls `warn` if the file cannot be written, the first time.
  void put(const std::string& key, const std::string& text, const Warn& warn = {});
  // The stored text, or that of make() if there is none yet.
  std::string find_or(const std::string& key, const std::function<std::string()>& make);
  // Calls `warn` at the first call for this key in the process.
  void warn_once(const std::string& key, const std::string& message, const Warn& warn);

 private:
  const std::filesystem::path file_;
  mutable std::mutex mutex_;
  std::map<std::string, std::string> entries_;
  std::set<std::string> warned_;
};

}  // namespace millrace

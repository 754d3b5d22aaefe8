// Stored choices: text by key, in memory and in a file that outlives the process.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "runtime/plan_record.h"

namespace millrace::cuda {

// Folder of stored choices: "plans" in the user's cache folder (util/cache_folder.h). Empty if there is none: each process then
// chooses again.
std::filesystem::path default_plan_folder();

// The file for one model of device and one set of library versions: "NVIDIA_H100_80GB_HBM3-cudnn-91900-cublaslt-130100".
std::string plan_file_name(std::string_view device, std::size_t cudnn, std::size_t cublaslt);

// A file's entries (plan_record.h), the last one for each key. Other content is skipped, such as incomplete entries.
std::map<std::string, std::string> read_plans(std::string_view bytes);

// The file is read once, then appended to: each entry is one write at the file's end, so several processes may share it, and a
// killed process's choices remain. Damaged entries are chosen again. An unwritable file causes one warning. Thread-safe; throws
// no errors of its own.
class PlanCache {
 public:
  using Warn = std::function<void(std::string_view)>;

  PlanCache() = default;                             // in memory only
  PlanCache(std::filesystem::path file, Warn warn);  // an empty path: in memory only

  std::optional<std::string> find(const std::string& key) const;
  void put(const std::string& key, const std::string& text);  // any bytes; written at once unless already known

 private:
  const std::filesystem::path file_;
  const Warn warn_;
  mutable std::mutex mutex_;
  std::map<std::string, std::string> entries_;
  bool warned_ = false;
};

}  // namespace millrace::cuda

// What was chosen before: text by key, in memory and in a file that outlives the process.
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

// Where choices are kept: "plans" in the user's cache folder (util/cache_folder.h). Empty when there is none: choices are then
// made again in each process.
std::filesystem::path default_plan_folder();

// The file for one model of device and one set of library versions: "NVIDIA_H100_80GB_HBM3-cudnn-91900-cublaslt-130100".
std::string plan_file_name(std::string_view device, std::size_t cudnn, std::size_t cublaslt);

// The entries (plan_record.h) of a file, of those with one key the last. What else lies between them is passed over, such as an
// entry that was cut short.
std::map<std::string, std::string> read_plans(std::string_view bytes);

// The file is read once and then appended to: each entry is one write at the file's end, so several processes may share it, and
// what a killed one had chosen stays. What is damaged is chosen again. A file that cannot be written costs one warning.
// Thread-safe; throws nothing of its own.
class PlanCache {
 public:
  using Warn = std::function<void(std::string_view)>;

  PlanCache() = default;                             // in memory only
  PlanCache(std::filesystem::path file, Warn warn);  // an empty path: in memory only

  std::optional<std::string> find(const std::string& key) const;
  void put(const std::string& key, const std::string& text);  // any bytes; written at once, unless it is known

 private:
  const std::filesystem::path file_;
  const Warn warn_;
  mutable std::mutex mutex_;
  std::map<std::string, std::string> entries_;
  bool warned_ = false;
};

}  // namespace millrace::cuda

#include "plan_cache.h"

#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <cctype>
#include <cstdlib>
#include <fstream>
#include <sstream>

namespace millrace::cuda {
namespace {

namespace fs = std::filesystem;

std::optional<std::string> read_file(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return std::nullopt;
  std::ostringstream bytes;
  bytes << file.rdbuf();
  return std::move(bytes).str();
}

bool write_file(const fs::path& path, const std::string& bytes) {
  static std::atomic<unsigned> number{0};
  const fs::path temporary = path.parent_path() / fmt::format(".{}.{}.{}", path.filename().string(), getpid(), number++);
  std::error_code error;
  fs::create_directories(path.parent_path(), error);
  std::ofstream file(temporary, std::ios::binary);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  file.close();
  if (file) fs::rename(temporary, path, error);
  if (file && !error) return true;
  fs::remove(temporary, error);
  return false;
}

fs::path folder_of(const char* variable, const char* below) {
  const char* folder = std::getenv(variable);
  return folder != nullptr && *folder == '/' ? fs::path(folder) / below : fs::path();
}

}  // namespace

fs::path default_plan_folder() {
  for (const fs::path& folder : {folder_of("MILLRACE_CACHE", "plans"), folder_of("XDG_CACHE_HOME", "millrace/plans"),
                                 folder_of("HOME", ".cache/millrace/plans")}) {
    if (!folder.empty()) return folder;
  }
  return {};
}

std::string plan_file_name(std::string_view device, std::size_t cudnn, std::size_t cublaslt) {
  std::string name;
  for (const char letter : device) name += std::isalnum(static_cast<unsigned char>(letter)) != 0 ? letter : '_';
  return fmt::format("{}-cudnn-{}-cublaslt-{}", name, cudnn, cublaslt);
}

PlanCache::PlanCache(fs::path file, Warn warn) : file_(std::move(file)), warn_(std::move(warn)) {
  if (!file_.empty()) load();
}

std::optional<std::string> PlanCache::find(const std::string& key) const {
  const std::lock_guard lock(mutex_);
  const auto found = entries_.find(key);
  return found == entries_.end() ? std::nullopt : std::optional(found->second);
}

void PlanCache::put(const std::string& key, const std::string& text) {
  const std::lock_guard lock(mutex_);
  entries_[key] = text;
  if (!file_.empty()) write();
}

// Adds what the file has and this process does not know.
void PlanCache::load() {
  const auto bytes = read_file(file_);
  if (!bytes) return;
  auto entries = decode_plans(*bytes);
  if (!entries) return warn_once(fmt::format("the choices of engines in '{}' are damaged and are made anew", file_.string()));
  entries_.merge(*entries);
}

void PlanCache::write() {
  load();
  if (!write_file(file_, encode_plans(entries_))) {
    warn_once(fmt::format("choices of engines cannot be kept in '{}' and are made anew in each run", file_.string()));
  }
}

void PlanCache::warn_once(const std::string& message) {
  if (!warned_ && warn_) warn_(message);
  warned_ = true;
}

}  // namespace millrace::cuda

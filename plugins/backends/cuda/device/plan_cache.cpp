#include "plan_cache.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <fstream>
#include <sstream>
#include <utility>

#include "millrace/util/cache_folder.h"

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

// In one call, so that entries of several processes do not mix.
bool append_to_file(const fs::path& path, const std::string& bytes) {
  std::error_code error;
  fs::create_directories(path.parent_path(), error);
  const int file = open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644);
  if (file < 0) return false;
  const ssize_t written = write(file, bytes.data(), bytes.size());
  return close(file) == 0 && written == static_cast<ssize_t>(bytes.size());
}

}  // namespace

fs::path default_plan_folder() { return cache_folder("plans"); }

std::string plan_file_name(std::string_view device, std::size_t cudnn, std::size_t cublaslt) {
  std::string name;
  for (const char letter : device) name += std::isalnum(static_cast<unsigned char>(letter)) != 0 ? letter : '_';
  return fmt::format("{}-cudnn-{}-cublaslt-{}", name, cudnn, cublaslt);
}

std::map<std::string, std::string> read_plans(std::string_view bytes) {
  std::map<std::string, std::string> entries;
  while (!bytes.empty()) {
    if (auto entry = take_plan(bytes)) {
      entries.insert_or_assign(std::move(entry->first), std::move(entry->second));
    } else {
      bytes.remove_prefix(std::min(bytes.find('\n'), bytes.size() - 1) + 1);  // another entry may begin after a line's end
    }
  }
  return entries;
}

PlanCache::PlanCache(fs::path file, Warn warn) : file_(std::move(file)), warn_(std::move(warn)) {
  if (const auto bytes = file_.empty() ? std::nullopt : read_file(file_)) entries_ = read_plans(*bytes);
}

std::optional<std::string> PlanCache::find(const std::string& key) const {
  const std::lock_guard lock(mutex_);
  const auto found = entries_.find(key);
  return found == entries_.end() ? std::nullopt : std::optional(found->second);
}

// The leading empty line terminates an entry that a killed process left incomplete.
void PlanCache::put(const std::string& key, const std::string& text) {
  const std::lock_guard lock(mutex_);
  const auto [entry, is_new] = entries_.try_emplace(key, text);
  if (!is_new && entry->second == text) return;
  entry->second = text;
  if (file_.empty() || append_to_file(file_, '\n' + encode_plan(key, text))) return;
  if (!std::exchange(warned_, true) && warn_) {
    warn_(fmt::format("choices of engines cannot be kept in '{}', and are made again in each run", file_.string()));
  }
}

}  // namespace millrace::cuda

#include "plan_cache.h"

#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <cctype>
#include <charconv>
#include <cstdlib>
#include <fstream>
#include <sstream>

namespace millrace::cuda {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kFormat = "millrace plans 1\n";

// FNV-1a, 64 bits: finds damage, not malice.
std::uint64_t checksum(std::string_view bytes) {
  std::uint64_t sum = 0xcbf29ce484222325U;
  for (const char byte : bytes) sum = (sum ^ static_cast<std::uint8_t>(byte)) * 0x100000001b3U;
  return sum;
}

// A number up to `end`, which is taken away with it.
std::optional<std::uint64_t> take_number(std::string_view& bytes, char end, int base) {
  const std::size_t length = bytes.find(end);
  if (length == std::string_view::npos || length == 0) return std::nullopt;
  std::uint64_t value = 0;
  const auto result = std::from_chars(bytes.data(), bytes.data() + length, value, base);
  if (result.ec != std::errc() || result.ptr != bytes.data() + length) return std::nullopt;
  bytes.remove_prefix(length + 1);
  return value;
}

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

std::string encode_plans(const std::map<std::string, std::string>& entries) {
  std::string bytes(kFormat);
  for (const auto& [key, text] : entries) {
    bytes += fmt::format("{} {} {:x}\n{}{}\n", key.size(), text.size(), checksum(key + text), key, text);
  }
  return bytes;
}

std::optional<std::map<std::string, std::string>> decode_plans(std::string_view bytes) {
  if (!bytes.starts_with(kFormat)) return std::nullopt;
  bytes.remove_prefix(kFormat.size());
  std::map<std::string, std::string> entries;
  while (!bytes.empty()) {
    const auto key = take_number(bytes, ' ', 10);
    const auto text = key ? take_number(bytes, ' ', 10) : std::nullopt;
    const auto sum = text ? take_number(bytes, '\n', 16) : std::nullopt;
    if (!sum || *key > bytes.size() || *text >= bytes.size() - *key) return std::nullopt;
    const std::string_view entry = bytes.substr(0, *key + *text);
    if (checksum(entry) != *sum || bytes[entry.size()] != '\n') return std::nullopt;
    entries.emplace(entry.substr(0, *key), entry.substr(*key));
    bytes.remove_prefix(entry.size() + 1);
  }
  return entries;
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

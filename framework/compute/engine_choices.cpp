#include "millrace/backend/engine_choices.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdint>
#include <fstream>
#include <sstream>

#include "millrace/detail/random.h"
#include "millrace/util/cache_folder.h"

namespace millrace {
namespace {

namespace fs = std::filesystem;

// Increment after every change of our own kernels, of the checks' tolerances, or of keys.
constexpr int kVersion = 5;

// FNV-1a, 64 bits: detects damage, not malice. Weights files contain it.
std::uint64_t checksum(std::string_view bytes) {
  std::uint64_t sum = 0xcbf29ce484222325U;
  for (const char byte : bytes) sum = (sum ^ static_cast<std::uint8_t>(byte)) * 0x100000001b3U;
  return sum;
}

// A number up to `end`; removes both.
std::optional<std::uint64_t> take_number(std::string_view& bytes, char end, int base) {
  const std::size_t length = bytes.find(end);
  if (length == std::string_view::npos || length == 0) return std::nullopt;
  std::uint64_t value = 0;
  const auto result = std::from_chars(bytes.data(), bytes.data() + length, value, base);
  if (result.ec != std::errc() || result.ptr != bytes.data() + length) return std::nullopt;
  bytes.remove_prefix(length + 1);
  return value;
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

std::string encode_choice(const std::string& key, const std::string& text) {
  return fmt::format("{} {} {:x}\n{}{}\n", key.size(), text.size(), checksum(key + text), key, text);
}

std::optional<std::pair<std::string, std::string>> take_choice(std::string_view& bytes) {
  std::string_view rest = bytes;
  const auto key = take_number(rest, ' ', 10);
  const auto text = key ? take_number(rest, ' ', 10) : std::nullopt;
  const auto sum = text ? take_number(rest, '\n', 16) : std::nullopt;
  if (!sum || *key > rest.size() || *text >= rest.size() - *key) return std::nullopt;
  const std::string_view entry = rest.substr(0, *key + *text);
  if (checksum(entry) != *sum || rest[entry.size()] != '\n') return std::nullopt;
  bytes = rest.substr(entry.size() + 1);
  return std::pair(std::string(entry.substr(0, *key)), std::string(entry.substr(*key)));
}

fs::path engine_choices_file(std::string_view device, std::string_view versions) {
  const fs::path folder = cache_folder("engines");
  if (folder.empty()) return {};
  std::string name;
  for (const char letter : device.substr(0, 100)) name += std::isalnum(static_cast<unsigned char>(letter)) != 0 ? letter : '_';
  return folder / fmt::format("{}-{:016x}", name, hash_text(fmt::format("{}\n{}\n{}", kVersion, device, versions)));
}

EngineChoices::EngineChoices(fs::path path) : file_(std::move(path)) {
  if (file_.empty()) return;
  std::ifstream file(file_, std::ios::binary);
  std::ostringstream read;  // an iterator over the file would throw for a folder, or when reading fails
  read << file.rdbuf();
  const std::string content = std::move(read).str();
  for (std::string_view bytes = content; !bytes.empty();) {
    if (auto entry = take_choice(bytes)) {
      entries_.insert_or_assign(std::move(entry->first), std::move(entry->second));
    } else {
      bytes.remove_prefix(std::min(bytes.find('\n'), bytes.size() - 1) + 1);  // another entry may begin after a line's end
    }
  }
}

std::optional<std::string> EngineChoices::find(const std::string& key) const {
  const std::lock_guard lock(mutex_);
  const auto found = entries_.find(key);
  return found == entries_.end() ? std::nullopt : std::optional(found->second);
}

// The leading empty line terminates an entry that a killed process left incomplete.
void EngineChoices::put(const std::string& key, const std::string& text, const Warn& warn) {
  {
    const std::lock_guard lock(mutex_);
    const auto [entry, is_new] = entries_.try_emplace(key, text);
    if (!is_new && entry->second == text) return;
    entry->second = text;
    if (file_.empty() || append_to_file(file_, '\n' + encode_choice(key, text))) return;
  }
  if (warn) warn_once({}, fmt::format("cannot write '{}': each run chooses its engines again", file_.string()), warn);
}

std::string EngineChoices::find_or(const std::string& key, const std::function<std::string()>& make) {
  if (auto known = find(key)) return *known;
  std::string text = make();
  put(key, text);
  return text;
}

void EngineChoices::warn_once(const std::string& key, const std::string& message, const Warn& warn) {
  {
    const std::lock_guard lock(mutex_);
    if (!warned_.insert(key).second) return;
  }
  warn(message);
}

}  // namespace millrace

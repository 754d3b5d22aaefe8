#include "millrace/backend/verdicts.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cctype>
#include <fstream>

#include "millrace/detail/random.h"
#include "millrace/util/cache_folder.h"

namespace millrace {
namespace {

namespace fs = std::filesystem;

std::string checksum(std::string_view text) { return fmt::format("{:016x}", hash_text(text)); }

// A line: the checksum of the rest, the key and the fault, separated by tabs.
std::string line_of(const std::string& key, const Fault& fault) {
  const std::string rest = key + '\t' + fault;
  return checksum(rest) + '\t' + rest + '\n';
}

std::optional<std::pair<std::string, Fault>> parse(std::string_view line) {
  constexpr std::size_t kDigits = 16;
  if (line.size() <= kDigits || line[kDigits] != '\t') return std::nullopt;
  const std::string_view rest = line.substr(kDigits + 1);
  const std::size_t tab = rest.find('\t');
  if (tab == std::string_view::npos || checksum(rest) != line.substr(0, kDigits)) return std::nullopt;
  return std::pair(std::string(rest.substr(0, tab)), Fault(rest.substr(tab + 1)));
}

// Increment after every change of our own kernels, or of the checks' tolerances.
constexpr int kVersionOfChecks = 4;

}  // namespace

fs::path verdict_file(std::string_view depends_on) {
  const fs::path folder = cache_folder("checks");
  if (folder.empty()) return {};
  std::string name;
  for (const char letter : depends_on) {
    name += std::isalnum(static_cast<unsigned char>(letter)) != 0 || letter == '.' ? letter : '_';
  }
  return folder / fmt::format("{}-{}", name, kVersionOfChecks);
}

Verdicts::Verdicts(fs::path path) : file_(std::move(path)) {
  std::ifstream file(file_, std::ios::binary);
  for (std::string line; std::getline(file, line);) {
    if (auto verdict = parse(line)) verdicts_.insert_or_assign(std::move(verdict->first), std::move(verdict->second));
  }
}

std::optional<Fault> Verdicts::find(const std::string& key) const {
  const std::lock_guard lock(mutex_);
  const auto found = verdicts_.find(key);
  return found == verdicts_.end() ? std::nullopt : std::optional(found->second);
}

Fault Verdicts::find_or(const std::string& key, const std::function<Fault()>& check) {
  if (auto known = find(key)) return *known;
  Fault fault = check();
  put(key, fault);
  return fault;
}

// The leading line end closes a line that a killed process left incomplete.
void Verdicts::put(const std::string& key, const Fault& fault) {
  const std::lock_guard lock(mutex_);
  verdicts_.insert_or_assign(key, fault);
  if (file_.empty()) return;
  std::error_code error;
  fs::create_directories(file_.parent_path(), error);
  const int file = open(file_.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644);
  if (file < 0) return;
  const std::string line = '\n' + line_of(key, fault);
  [[maybe_unused]] const auto written = write(file, line.data(), line.size());  // a truncated line is checked again
  close(file);
}

void Verdicts::warn_once(const std::string& key, const std::string& message, const Warn& warn) {
  {
    const std::lock_guard lock(mutex_);
    if (!named_.insert(key).second) return;
  }
  warn(message);
}

}  // namespace millrace

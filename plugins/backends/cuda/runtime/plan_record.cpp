#include "plan_record.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <utility>

namespace millrace::cuda {
namespace {

constexpr std::string_view kFormat = "millrace plans 1\n";

// FNV-1a, 64 bits: detects damage, not malice.
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

// Keys of the two kinds of entries. Choices are a library's: "cuDNN: conv ...".
std::string key_of(const std::string& library, const std::string& shape) { return library + ": " + shape; }
constexpr std::string_view kHere = "here: ";

// Saved data become part of the JSON header of a weights file.
bool is_text(std::string_view bytes) {
  return std::all_of(bytes.begin(), bytes.end(), [](char byte) { return (byte >= ' ' && byte <= '~') || byte == '\n'; });
}

}  // namespace

std::string encode_plan(const std::string& key, const std::string& text) {
  return fmt::format("{} {} {:x}\n{}{}\n", key.size(), text.size(), checksum(key + text), key, text);
}

std::optional<std::pair<std::string, std::string>> take_plan(std::string_view& bytes) {
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

std::string encode_plans(const std::map<std::string, std::string>& entries) {
  std::string bytes(kFormat);
  for (const auto& [key, text] : entries) bytes += encode_plan(key, text);
  return bytes;
}

std::optional<std::map<std::string, std::string>> decode_plans(std::string_view bytes) {
  if (!bytes.starts_with(kFormat)) return std::nullopt;
  bytes.remove_prefix(kFormat.size());
  std::map<std::string, std::string> entries;
  while (!bytes.empty()) {
    auto entry = take_plan(bytes);
    if (!entry) return std::nullopt;
    entries.insert(std::move(*entry));
  }
  return entries;
}

PlanRecord::PlanRecord(const std::string& saved, Warn warn) : warn_(std::move(warn)) {
  if (saved.empty()) return;
  if (auto entries = decode_plans(saved)) {
    saved_ = std::move(*entries);
  } else {
    warn_("the engines saved with these weights cannot be read, and are chosen again");
  }
}

bool PlanRecord::differs(const std::string& what, const std::string& is) {
  const std::string key = std::string(kHere) + what;
  chosen_[key] = is;
  const auto was = saved_.find(key);
  if (was == saved_.end() || was->second == is) return false;
  warn_(fmt::format("{} is {}, and was {} in the run that saved these weights: engines are chosen again", what, is, was->second));
  return true;
}

void PlanRecord::here(const std::string& what, const std::string& is) {
  const std::lock_guard lock(mutex_);
  if (differs(what, is)) saved_.clear();
}

void PlanRecord::library(const std::string& name, const std::string& version) {
  const std::lock_guard lock(mutex_);
  if (!differs(name, version)) return;
  std::erase_if(saved_, [&](const auto& entry) { return entry.first.starts_with(key_of(name, "")); });
}

std::optional<std::string> PlanRecord::find(const std::string& library, const std::string& shape) const {
  const std::lock_guard lock(mutex_);
  const auto found = saved_.find(key_of(library, shape));
  return found == saved_.end() ? std::nullopt : std::optional(found->second);
}

void PlanRecord::put(const std::string& library, const std::string& shape, const std::string& choice) {
  const std::lock_guard lock(mutex_);
  if (is_text(shape) && is_text(choice)) chosen_[key_of(library, shape)] = choice;
}

void PlanRecord::refused(const std::string& library, const std::string& shape) const {
  warn_(fmt::format("{} rejects the engine saved with these weights for the {}: another is chosen", library, shape));
}

std::string PlanRecord::text() const {
  const std::lock_guard lock(mutex_);
  const bool chosen =
      std::any_of(chosen_.begin(), chosen_.end(), [](const auto& entry) { return !entry.first.starts_with(kHere); });
  return chosen ? encode_plans(chosen_) : std::string();
}

}  // namespace millrace::cuda

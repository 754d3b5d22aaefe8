#include "plan_record.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "millrace/backend/engine_choices.h"

namespace millrace::cuda {
namespace {

constexpr std::string_view kFormat = "millrace plans 1\n";

// Keys of the two kinds of entries. Choices are a library's: "cuDNN: conv ...".
std::string key_of(const std::string& library, const std::string& shape) { return library + ": " + shape; }
constexpr std::string_view kHere = "here: ";

// Saved data become part of the JSON header of a weights file.
bool is_text(std::string_view bytes) {
  return std::all_of(bytes.begin(), bytes.end(), [](char byte) { return (byte >= ' ' && byte <= '~') || byte == '\n'; });
}

// Empty: damaged.
std::optional<std::map<std::string, std::string>> decode_plans(std::string_view bytes) {
  if (!bytes.starts_with(kFormat)) return std::nullopt;
  bytes.remove_prefix(kFormat.size());
  std::map<std::string, std::string> entries;
  while (!bytes.empty()) {
    auto entry = take_choice(bytes);
    if (!entry) return std::nullopt;
    entries.insert(std::move(*entry));
  }
  return entries;
}

}  // namespace

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
  if (!chosen) return {};
  std::string bytes(kFormat);
  for (const auto& [key, choice] : chosen_) bytes += encode_choice(key, choice);
  return bytes;
}

}  // namespace millrace::cuda

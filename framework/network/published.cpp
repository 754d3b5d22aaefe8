#include "network/published.h"

#include <fmt/format.h>

#include <algorithm>

namespace millrace {
namespace {

std::string text_of(const Value& table, const char* key, Diagnostics& errors) {
  const Value* const value = table.find(key);
  if (value == nullptr) return {};
  if (value->kind() == Value::Kind::text) return value->text();
  errors.add(value->at(), fmt::format("'{}' must be text, found {}", key, found(*value)));
  return {};
}

}  // namespace

std::vector<PublishedWeights> published_weights(const Value& document, Diagnostics& errors) {
  std::vector<PublishedWeights> all;
  const Value* const published = document.find("published");
  if (published == nullptr || published->kind() != Value::Kind::table) return all;
  for (const Member& member : published->table()) {
    const std::string owner = fmt::format("published weights '{}'", member.key);
    if (member.value.kind() != Value::Kind::table) {
      errors.add(member.value.at(), fmt::format("{} must be a table, found {}", owner, found(member.value)));
      continue;
    }
    for (const Member& each : member.value.table()) {
      if (each.key != "url" && each.key != "sha256" && each.key != "rename")
        errors.add(each.at, fmt::format("{} have no key '{}': expected url, sha256 or rename", owner, each.key));
    }
    PublishedWeights weights{member.key, text_of(member.value, "url", errors), text_of(member.value, "sha256", errors), {}};
    if (weights.url.find("://") == std::string::npos)
      errors.add(member.at, fmt::format("{} need 'url', such as \"https://host/file.pth\"", owner));
    if (const Value* const rename = member.value.find("rename")) weights.rename = *rename;
    all.push_back(std::move(weights));
  }
  return all;
}

}  // namespace millrace

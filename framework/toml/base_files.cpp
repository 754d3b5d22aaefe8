#include "toml/base_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>

namespace millrace {
namespace {

bool is_same(const Position& a, const Position& b) {
  return a.file && b.file && *a.file == *b.file && a.line == b.line && a.column == b.column;
}

bool is_element(const Value& value, const Position& at) {
  return value.kind() == Value::Kind::array &&
         std::ranges::any_of(value.array(), [&](const Value& each) { return is_same(each.at(), at) || is_element(each, at); });
}

// The path of tables and keys to the value at a position. Returns false if there is none.
bool find_way(const Value& table, const Position& at, std::vector<const Member*>& way) {
  for (const Member& member : table.table()) {
    way.push_back(&member);
    if (is_same(member.at, at) || is_same(member.value.at(), at) || is_element(member.value, at)) return true;
    if (member.value.kind() == Value::Kind::table && find_way(member.value, at, way)) return true;
    way.pop_back();
  }
  return false;
}

// Whether --set gave or removed a key of the table at the end of the path.
bool is_in_same_table(const std::vector<std::string>& key, const std::vector<const Member*>& way) {
  return !way.empty() && key.size() == way.size() &&
         std::equal(key.begin(), key.end() - 1, way.begin(), [](const std::string& a, const Member* b) { return a == b->key; });
}

}  // namespace

bool BaseFiles::has(const Position& at) const { return is_in_file(at) && std::ranges::find(files, *at.file) != files.end(); }

Position BaseFiles::after_extends(const Position& at) const { return has(at) ? used_in(to_string(extends), at) : at; }

Diagnostics BaseFiles::after_users_text(const Diagnostics& errors, const Value& document,
                                        const std::vector<std::vector<std::string>>& set) const {
  Diagnostics seen;
  for (const Diagnostics::Entry& entry : errors.entries()) {
    if (!has(entry.at)) {
      seen.add(entry.at, entry.message);
      continue;
    }
    std::vector<const Member*> way;
    find_way(document, entry.at, way);
    const auto is_users = [&](const Member* member) { return is_in_file(member->value.at()) && !has(member->value.at()); };
    const auto table = std::find_if(way.rbegin(), way.rend(), is_users);
    const auto key = std::ranges::find_if(set, [&](const auto& each) { return is_in_same_table(each, way); });
    const std::string place = key != set.end()      ? fmt::format("--set {}", fmt::join(*key, "."))
                              : table != way.rend() ? to_string((*table)->value.at())
                                                    : to_string(extends);
    seen.add(used_in(place, entry.at), entry.message);
  }
  return seen;
}

Position used_in(const std::string& place, const Position& at) {
  return {
      std::make_shared<const std::string>(place.empty() ? to_string(at) : fmt::format("{}, used in {}", place, to_string(at))), 0,
      0};
}

}  // namespace millrace

// Tables of declared parameters, and collected mistakes. For single fields see fields.cpp.
#include "millrace/params.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <tuple>

#include "millrace/error.h"
#include "millrace/util/text.h"

namespace millrace {

// ---- Diagnostics ----

void Diagnostics::add(const Position& at, std::string message) { entries_.push_back({at, std::move(message)}); }

std::string Diagnostics::text() const {
  const auto before = [](const Entry& a, const Entry& b) {
    const std::string a_file = a.at.file ? *a.at.file : "", b_file = b.at.file ? *b.at.file : "";
    return std::tie(a_file, a.at.line, a.at.column) < std::tie(b_file, b.at.line, b.at.column);
  };
  std::vector<Entry> sorted = entries_;
  std::stable_sort(sorted.begin(), sorted.end(), before);
  std::string out, last;
  for (const Entry& entry : sorted) {
    const std::string at = to_string(entry.at);
    std::string line = at.empty() ? entry.message : at + ": " + entry.message;
    if (line == last) continue;  // a block that is used twice has the same mistakes
    if (!out.empty()) out += '\n';
    out += line;
    last = std::move(line);
  }
  return out;
}

void Diagnostics::throw_if_any() const {
  if (!empty()) throw Error(ErrorKind::usage, text());
}

// ---- ParamInfo, ParamRef ----

ParamInfo::ParamInfo() = default;
ParamInfo::ParamInfo(const ParamInfo&) = default;
ParamInfo::ParamInfo(ParamInfo&&) noexcept = default;
ParamInfo& ParamInfo::operator=(const ParamInfo&) = default;
ParamInfo& ParamInfo::operator=(ParamInfo&&) noexcept = default;
ParamInfo::~ParamInfo() = default;

ParamRef& ParamRef::text(std::string_view text) {
  info_->text = text;
  return *this;
}

ParamRef& ParamRef::unit(std::string_view unit) {
  info_->unit = unit;
  return *this;
}

ParamRef& ParamRef::range(double low, double high) {
  if (std::isfinite(low)) info_->low = low;
  if (std::isfinite(high)) info_->high = high;
  return *this;
}

ParamRef& ParamRef::choices(std::initializer_list<std::string_view> names) {
  info_->choices.assign(names.begin(), names.end());
  return *this;
}

ParamRef& ParamRef::choices(std::vector<std::string> names) {
  info_->choices = std::move(names);
  return *this;
}

ParamRef& ParamRef::by_name() {
  info_->by_name = true;
  return *this;
}

ParamRef& ParamRef::hint(std::string_view word, std::string_view text) {
  info_->hints.emplace_back(word, text);
  return *this;
}

ParamRef& ParamRef::required() {
  info_->required = true;
  return *this;
}

ParamRef& ParamRef::only_with(std::string_view key, std::initializer_list<std::string_view> values) {
  info_->companions.push_back({std::string(key), {values.begin(), values.end()}});
  return *this;
}

ParamRef& ParamRef::alternative(std::string_view purpose) {
  info_->alternative = purpose;
  return *this;
}

ParamRef& ParamRef::or_one() {
  info_->or_one = true;
  return *this;
}

ParamRef& ParamRef::in_recipes(RecipeEffect effect) {
  info_->in_recipes = effect;
  return *this;
}

ParamRef& ParamRef::may_change() {
  info_->may_change = true;
  return *this;
}

// ---- ParamList ----

ParamRef detail::ParamList::append(std::string_view name, std::string type, Read read, Write write, std::size_t length) {
  ParamInfo& info = infos_.emplace_back();
  info.name = name;
  info.type = std::move(type);
  info.read = std::move(read);
  info.write = std::move(write);
  info.length = length;
  return ParamRef(info);
}

ParamRef detail::ParamList::append_table(std::string_view name, std::string type, std::vector<ParamInfo> members,
                                         const void* member_defaults, Read read, Write write, bool shared) {
  const ParamRef ref = append(name, std::move(type), std::move(read), std::move(write));
  ParamInfo& info = infos_.back();
  info.shared = shared;
  info.members = std::move(members);
  info.member_defaults = write_params(info.members, member_defaults);
  return ref;
}

void detail::ParamList::report_no_list(const ParamInfo& self, const Value& value, Diagnostics& errors) {
  errors.add(value.at(), fmt::format("'{}' must be a list of tables, found {}", self.name, found(value)));
}

// ---- tables ----

namespace {

// Whether the text that contains `member` also contains this key. Keys inherited from another file may be repeated.
bool is_in_same_text(const Value& table, const std::string& key, const Member& member) {
  const Value* const value = table.find(key);
  if (value == nullptr) return false;
  const auto &mine = member.at.file, &its = value->at().file;
  return mine == its || (mine && its && *mine == *its);
}

// Prefers suggestions that the same text does not contain yet.
void report_unknown(const std::vector<ParamInfo>& params, const Value& table, const Member& member, const std::string& owner,
                    Diagnostics& errors) {
  std::string message = fmt::format("{} has no key '{}'", owner, shown(member.key));
  if (!errors.names_nearest()) return errors.add(member.at, std::move(message));
  std::vector<std::string> names, left;
  for (const ParamInfo& info : params) {
    names.push_back(info.name);
    if (!is_in_same_text(table, info.name, member)) left.push_back(info.name);
  }
  const auto likely = nearest_name(member.key, left);
  if (const auto nearest = likely ? likely : nearest_name(member.key, names)) {
    message += fmt::format("; nearest is '{}'", *nearest);
  } else if (names.empty()) {
    message += "; it takes none";
  } else {
    message += fmt::format("; it takes '{}'", fmt::join(names, "', '"));
  }
  errors.add(member.at, std::move(message));
}

const ParamInfo* find(const std::vector<ParamInfo>& params, const std::string& name) {
  const auto found = std::find_if(params.begin(), params.end(), [&](const ParamInfo& info) { return info.name == name; });
  return found == params.end() ? nullptr : &*found;
}

bool is_one_of(const Value& value, const std::vector<std::string>& texts) {
  return value.kind() == Value::Kind::text && std::find(texts.begin(), texts.end(), value.text()) != texts.end();
}

// `object`: as read. A companion with a mistake counts as given, since the mistake is already reported.
bool is_there(const ParamInfo::Companion& companion, const std::vector<ParamInfo>& params, const Value& table,
              const void* object) {
  const Value* const written = table.find(companion.key);
  if (companion.values.empty()) return written != nullptr;
  const ParamInfo* const info = find(params, companion.key);
  const Value value = written != nullptr ? *written : info->write(object);
  return is_one_of(value, companion.values) || !is_one_of(value, info->choices);
}

void report_without_effect(const ParamInfo& info, const Member& member, const std::string& owner, Diagnostics& errors) {
  std::vector<std::string> ways;
  for (const ParamInfo::Companion& companion : info.companions) {
    ways.push_back(companion.values.empty() ? fmt::format("'{}'", companion.key)
                                            : fmt::format("{} = \"{}\"", companion.key, fmt::join(companion.values, "\" or \"")));
  }
  errors.add(member.at, fmt::format("{}: '{}' has no effect without {}", owner, info.name, fmt::join(ways, " or ")));
}

// Whether another key of the table has the same meaning.
bool has_alternative(const std::vector<ParamInfo>& params, const ParamInfo& of, const Value& table) {
  return !of.alternative.empty() && std::any_of(params.begin(), params.end(), [&](const ParamInfo& info) {
    return info.alternative == of.alternative && table.find(info.name) != nullptr;
  });
}

// Among several keys that exclude each other, the first is assumed to be meant.
void report_alternatives(const std::vector<ParamInfo>& params, const Value& table, const std::string& owner,
                         Diagnostics& errors) {
  std::map<std::string, std::string> first;  // the key for each meaning
  for (const Member& member : table.table()) {
    const ParamInfo* const info = find(params, member.key);
    if (info == nullptr || info->alternative.empty()) continue;
    const auto [other, is_first] = first.emplace(info->alternative, member.key);
    if (is_first) continue;
    errors.add(member.at, fmt::format("{}: '{}' and '{}' are two ways to give the {}: choose one", owner, other->second,
                                      member.key, info->alternative));
  }
}

}  // namespace

void read_params(const std::vector<ParamInfo>& params, const Value& table, void* object, const std::string& owner,
                 Diagnostics& errors) {
  if (table.kind() != Value::Kind::table) {
    constexpr std::size_t kFewKeys = 8;  // in a message
    std::vector<std::string> keys;
    for (const ParamInfo& info : params) keys.push_back(info.name);
    const bool is_key = owner.starts_with('\'') && !keys.empty() && keys.size() <= kFewKeys;
    errors.add(table.at(),
               fmt::format("{} must be a table{}, found {}", owner,
                           is_key ? fmt::format(" with the key{} {}", keys.size() == 1 ? "" : "s", fmt::join(keys, ", ")) : "",
                           found(table)));
    return;
  }
  for (const Member& member : table.table()) {
    const ParamInfo* const info = find(params, member.key);
    const bool is_one = info != nullptr && info->type == "table" && info->or_one && member.value.kind() != Value::Kind::table;
    if (is_one) {
      const Position& at = member.value.at();
      info->read(*info, object, Value(Table{{info->members.front().name, at, member.value}}, at), errors);
    } else if (info != nullptr) {
      info->read(*info, object, member.value, errors);
    } else {
      report_unknown(params, table, member, owner, errors);
    }
  }
  for (const Member& member : table.table()) {
    const ParamInfo* const info = find(params, member.key);
    if (info == nullptr || info->companions.empty()) continue;
    const auto there = [&](const ParamInfo::Companion& companion) { return is_there(companion, params, table, object); };
    if (std::none_of(info->companions.begin(), info->companions.end(), there))
      report_without_effect(*info, member, owner, errors);
  }
  report_alternatives(params, table, owner, errors);
  for (const ParamInfo& info : params) {
    if (!info.required || table.find(info.name) || has_alternative(params, info, table)) continue;
    errors.add(table.at(), fmt::format("{} needs '{}'{}", owner, info.name, info.text.empty() ? "" : ": " + info.text));
  }
}

void detail::require_one_alternative(const std::vector<ParamInfo>& params, const void* object, const void* defaults,
                                     const std::string& owner) {
  Value given;
  for (const ParamInfo& info : params) {
    Value value = info.write(object);
    if (to_toml(value) != to_toml(info.write(defaults))) given.set(info.name, std::move(value));
  }
  Diagnostics errors;
  report_alternatives(params, given, owner, errors);
  errors.throw_if_any();
}

void drop_overruled(const std::vector<ParamInfo>& params, Value& table, const Overrules& overrules) {
  if (table.kind() != Value::Kind::table) return;
  for (Member& member : table.table()) {
    const ParamInfo* const info = find(params, member.key);
    if (info != nullptr && info->type == "table") drop_overruled(info->members, member.value, overrules);
  }
  const Value whole = table;
  std::erase_if(table.table(), [&](const Member& member) {
    const ParamInfo* const info = find(params, member.key);
    if (info == nullptr) return false;
    const auto overrules_it = [&](const Member& other) {
      const ParamInfo* const its = find(params, other.key);
      return its != nullptr && its->alternative == info->alternative && overrules(other.value.at(), member.value.at());
    };
    if (!info->alternative.empty() && std::any_of(whole.table().begin(), whole.table().end(), overrules_it)) return true;
    bool overruled = false;
    for (const ParamInfo::Companion& companion : info->companions) {
      const Value* const written = whole.find(companion.key);
      if (written == nullptr) continue;
      if (companion.values.empty() || is_one_of(*written, companion.values)) return false;
      overruled = overruled || overrules(written->at(), member.value.at());
    }
    return overruled;
  });
}

Value take_other_keys(const std::vector<ParamInfo>& params, Value& table) {
  Value taken(Table{}, table.at());
  if (table.kind() != Value::Kind::table) return taken;
  const auto is_own = [&](const Member& member) {
    return std::any_of(params.begin(), params.end(), [&](const ParamInfo& info) { return info.name == member.key; });
  };
  Table& members = table.table();
  const auto others = std::stable_partition(members.begin(), members.end(), is_own);
  taken.table().assign(std::make_move_iterator(others), std::make_move_iterator(members.end()));
  members.erase(others, members.end());
  return taken;
}

Value write_params(const std::vector<ParamInfo>& params, const void* object) {
  Value table;
  for (const ParamInfo& info : params) {
    Value value = info.write(object);
    // An unset optional has no value: its key is left out.
    const bool absent = value.kind() == Value::Kind::table && value.table().empty();
    if (!absent) table.set(info.name, std::move(value));
  }
  return table;
}

}  // namespace millrace

#include "millrace/detail/value.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <utility>

#include "millrace/util/text.h"

namespace millrace {

std::string to_string(const Position& position) {
  if (!position.file) return "";
  if (!is_in_file(position)) return *position.file;
  return fmt::format("{}:{}:{}", *position.file, position.line, position.column);
}

bool is_in_file(const Position& position) { return position.file && position.line > 0 && !position.file->starts_with("--"); }

// Copies the alternative before the variant exists: if the copy throws inside, libstdc++ 12 destroys an alternative that was
// never constructed.
Value::Value(const Value& other)
    : data_(std::visit(
          [](const auto& value) {
            auto copy = value;
            return decltype(data_)(std::move(copy));
          },
          other.data_)),
      at_(other.at_) {}
Value::Value(Value&&) noexcept = default;
Value& Value::operator=(const Value& other) { return *this = Value(other); }
Value& Value::operator=(Value&&) noexcept = default;
Value::~Value() = default;

Member::Member(std::string key_, Position at_, Value value_)
    : key(std::move(key_)), at(std::move(at_)), value(std::move(value_)) {}
Member::Member(const Member&) = default;
Member::Member(Member&&) noexcept = default;
Member& Member::operator=(const Member&) = default;
Member& Member::operator=(Member&&) noexcept = default;
Member::~Member() = default;

Value::Value() : data_(Table{}) {}
Value::Value(bool value, Position at) : data_(value), at_(std::move(at)) {}
Value::Value(int value, Position at) : data_(std::int64_t{value}), at_(std::move(at)) {}
Value::Value(std::int64_t value, Position at) : data_(value), at_(std::move(at)) {}
Value::Value(double value, Position at) : data_(value), at_(std::move(at)) {}
Value::Value(const char* value, Position at) : data_(std::string(value)), at_(std::move(at)) {}
Value::Value(std::string value, Position at) : data_(std::move(value)), at_(std::move(at)) {}
Value::Value(Array value, Position at) : data_(std::move(value)), at_(std::move(at)) {}
Value::Value(Table value, Position at) : data_(std::move(value)), at_(std::move(at)) {}

double Value::number() const {
  return kind() == Kind::integer ? static_cast<double>(std::get<std::int64_t>(data_)) : std::get<double>(data_);
}

const Value* Value::find(std::string_view key) const {
  if (kind() != Kind::table) return nullptr;
  for (const Member& member : table()) {
    if (member.key == key) return &member.value;
  }
  return nullptr;
}

Value* Value::find(std::string_view key) { return const_cast<Value*>(std::as_const(*this).find(key)); }

void Value::set(std::string_view key, Value value) {
  if (Value* present = find(key)) {
    *present = std::move(value);
    return;
  }
  Position at = value.at();
  table().push_back({std::string(key), std::move(at), std::move(value)});
}

bool Value::erase(std::string_view key) {
  if (kind() != Kind::table) return false;
  return std::erase_if(table(), [key](const Member& member) { return member.key == key; }) > 0;
}

const char* to_string(Value::Kind kind) {
  switch (kind) {
    case Value::Kind::boolean: return "true or false";
    case Value::Kind::integer: return "an integer";
    case Value::Kind::real: return "a number";
    case Value::Kind::text: return "text";
    case Value::Kind::array: return "a list";
    case Value::Kind::table: return "a table";
  }
  return "unknown";
}

// ---- TOML ----

namespace {

constexpr std::size_t kLineWidth = 120;
constexpr int kSectionDepth = 2;  // [a] and [a.b] become sections; deeper tables are written inline

std::string in_quotes(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    switch (c) {
      case '"': out += "\\\""; break;
      case '\\': out += "\\\\"; break;
      case '\n': out += "\\n"; break;
      case '\t': out += "\\t"; break;
      case '\r': out += "\\r"; break;
      default:
        if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
          out += fmt::format("\\u{:04X}", static_cast<unsigned char>(c));
        } else {
          out += c;
        }
    }
  }
  return out + '"';
}

std::string key_text(const std::string& key) {
  const bool bare = !key.empty() && std::all_of(key.begin(), key.end(), [](unsigned char c) {
    return c < 0x80 && (std::isalnum(c) || c == '_' || c == '-');
  });
  return bare ? key : in_quotes(key);
}

std::string real_text(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  std::string text = fmt::format("{}", value);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

std::string inline_text(const Value& value) {
  switch (value.kind()) {
    case Value::Kind::boolean: return value.boolean() ? "true" : "false";
    case Value::Kind::integer: return fmt::format("{}", value.integer());
    case Value::Kind::real: return real_text(value.number());
    case Value::Kind::text: return in_quotes(value.text());
    case Value::Kind::array: {
      std::vector<std::string> parts;
      for (const Value& element : value.array()) parts.push_back(inline_text(element));
      return fmt::format("[{}]", fmt::join(parts, ", "));
    }
    case Value::Kind::table: {
      if (value.table().empty()) return "{}";
      std::vector<std::string> parts;
      for (const Member& member : value.table()) parts.push_back(key_text(member.key) + " = " + inline_text(member.value));
      return fmt::format("{{ {} }}", fmt::join(parts, ", "));
    }
  }
  return "";
}

// A long list gets one line for each element.
std::string assignment(const Member& member) {
  std::string line = key_text(member.key) + " = " + inline_text(member.value);
  if (line.size() <= kLineWidth || member.value.kind() != Value::Kind::array) return line + "\n";
  line = key_text(member.key) + " = [\n";
  for (const Value& element : member.value.array()) line += "  " + inline_text(element) + ",\n";
  return line + "]\n";
}

// Plain keys come first: otherwise TOML would assign them to the section above.
void write_section(const Value& table, const std::string& path, int depth, std::string& out) {
  const auto is_section = [depth](const Member& member) {
    return member.value.kind() == Value::Kind::table && depth < kSectionDepth;
  };
  const bool only_sections = std::all_of(table.table().begin(), table.table().end(), is_section);
  if (!path.empty() && (table.table().empty() || !only_sections)) {
    if (!out.empty()) out += "\n";
    out += "[" + path + "]\n";
  }
  for (const Member& member : table.table()) {
    if (!is_section(member)) out += assignment(member);
  }
  for (const Member& member : table.table()) {
    if (!is_section(member)) continue;
    write_section(member.value, path.empty() ? key_text(member.key) : path + "." + key_text(member.key), depth + 1, out);
  }
}

}  // namespace

std::string to_toml(const Value& value) {
  if (value.kind() != Value::Kind::table) return inline_text(value);
  std::string out;
  write_section(value, "", 0, out);
  return out;
}

std::string found(const Value& value) {
  if (value.kind() == Value::Kind::array || value.kind() == Value::Kind::table) return to_string(value.kind());
  return inline_text(value);
}

// ---- the nearest name ----

// Optimal string alignment.
std::size_t edit_distance(const std::string& a, const std::string& b) {
  std::vector<std::size_t> before, above(b.size() + 1), row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) above[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({above[j] + 1, row[j - 1] + 1, above[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1)});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) row[j] = std::min(row[j], before[j - 2] + 1);
    }
    before = std::exchange(above, row);
  }
  return above[b.size()];
}

namespace {

// Names that differ in a digit name different things: "conv1" and "conv2".
std::string digits_of(std::string_view text) {
  std::string digits;
  std::copy_if(text.begin(), text.end(), std::back_inserter(digits), [](char c) { return c >= '0' && c <= '9'; });
  return digits;
}

// Whether `part` begins a word of `name`: "folder" of "read_folder".
bool has_part(const std::string& name, const std::string& part) {
  for (std::size_t at = name.find(part); at != std::string::npos; at = name.find(part, at + 1)) {
    if (at == 0 || std::isalnum(static_cast<unsigned char>(name[at - 1])) == 0) return true;
  }
  return false;
}

}  // namespace

std::optional<std::string> nearest_name(std::string_view name, const std::vector<std::string>& candidates) {
  constexpr std::size_t kLongest = 300;  // the distance of longer texts takes time with the square of their length
  if (name.size() > kLongest) return std::nullopt;
  const std::string wanted = lower_case(name);
  const std::size_t tolerance = wanted.size() < 2 ? 0 : wanted.size() < 5 ? 1 : std::max<std::size_t>(2, wanted.size() / 3);
  const std::string digits = digits_of(name);
  const std::string* best = nullptr;
  std::size_t least = tolerance + 1;
  for (const std::string& candidate : candidates) {
    if (std::max(wanted.size(), candidate.size()) - std::min(wanted.size(), candidate.size()) > least) continue;
    const std::size_t distance = edit_distance(wanted, lower_case(candidate));
    const bool is_likelier = best && distance == least && digits_of(*best) != digits && digits_of(candidate) == digits;
    if (distance < least || is_likelier) {
      least = distance;
      best = &candidate;
    }
  }
  if (best && least <= 1) return *best;
  // A part of a name is nearer than two letters changed: "folder" means "read_folder" rather than "border".
  const std::string* longer = nullptr;
  for (const std::string& candidate : candidates) {
    const bool inside = wanted.size() >= 4 && has_part(lower_case(candidate), wanted);
    if (inside && (!longer || candidate.size() < longer->size())) longer = &candidate;
  }
  if (longer) return *longer;
  return best ? std::optional(*best) : std::nullopt;
}

}  // namespace millrace

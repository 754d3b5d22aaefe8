#include "config/origins.h"

#include <fmt/format.h>

#include <memory>

namespace millrace {

void Origins::note(std::string_view path, const Position& from, const Position& text) {
  if (!from.file || !text.file) return;
  const auto before = from_.find(key(from));
  const Position origin = before != from_.end() ? before->second : with_key(from, path);
  const auto known = from_.find(key(text));
  if (is_later_(origin, known != from_.end() ? known->second : text)) from_[key(text)] = origin;
}

void Origins::apply(Value& value) const {
  if (const auto known = from_.find(key(value.at())); known != from_.end()) return value.set_position(known->second);
  if (value.kind() == Value::Kind::table) {
    for (Member& member : value.table()) apply(member.value);
  } else if (value.kind() == Value::Kind::array) {
    for (Value& element : value.array()) {
      const auto moved = from_.find(key(element.at()));
      apply(element);
      if (moved != from_.end()) value.set_position(moved->second);
    }
  }
}

Position with_key(const Position& at, std::string_view key) {
  if (!at.file || *at.file != "--set") return at;
  return {std::make_shared<const std::string>(fmt::format("--set {}", key)), 0, 0};
}

}  // namespace millrace

#include "config/origins.h"

namespace millrace {

void Origins::note(const Position& from, const Position& text) {
  if (!from.file || !text.file) return;
  const auto before = from_.find(key(from));
  const Position origin = before != from_.end() ? before->second : from;
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

}  // namespace millrace

#include "network/variables.h"

#include <fmt/format.h>

#include <algorithm>

#include "config/expression.h"

namespace millrace {
namespace {

void collect(const Value& value, std::vector<Reference>& found) {
  if (value.kind() == Value::Kind::array) {
    for (const Value& entry : value.array()) collect(entry, found);
  } else if (value.kind() == Value::Kind::table) {
    for (const Member& member : value.table()) collect(member.value, found);
  } else if (value.kind() == Value::Kind::text) {
    const std::string& text = value.text();
    for (std::size_t begin = text.find("${"); begin != std::string::npos; begin = text.find("${", begin + 2)) {
      const std::size_t end = text.find('}', begin);
      if (end == std::string::npos) return;               // evaluate() says what is wrong with it
      if (begin > 0 && text[begin - 1] == '$') continue;  // "$${" stands for "${"
      std::string name = text.substr(begin + 2, end - begin - 2);
      name.resize(std::min(name.find('.'), name.size()));
      if (name != "env") found.push_back({std::move(name), value.at()});
    }
  }
}

}  // namespace

std::vector<Reference> references(const Value& value) {
  std::vector<Reference> found;
  collect(value, found);
  return found;
}

Value resolve(const Value& value, const Value& variables, Diagnostics& errors) {
  return evaluate(value, TableScope(variables), errors);
}

void bind(Value& variables, const Value& given, const Value& defaults, Diagnostics& errors) {
  std::vector<const Member*> pending;
  for (const Member& member : defaults.table()) {
    if (!given.find(member.key)) pending.push_back(&member);
  }
  for (const Member& member : given.table()) variables.set(member.key, member.value);

  const auto is_pending = [&](const Reference& reference) {
    return std::any_of(pending.begin(), pending.end(), [&](const Member* member) { return member->key == reference.name; });
  };
  while (!pending.empty()) {
    const auto ready = std::find_if(pending.begin(), pending.end(), [&](const Member* member) {
      const std::vector<Reference> names = references(member->value);
      return std::none_of(names.begin(), names.end(), is_pending);
    });
    if (ready == pending.end()) {
      errors.add(pending.front()->at, fmt::format("the default of '{}' depends on itself", pending.front()->key));
      return;
    }
    variables.set((*ready)->key, resolve((*ready)->value, variables, errors));
    pending.erase(ready);
  }
}

void report_unknown_name(const std::string& owner, const std::string& what, const std::string& name,
                         const std::vector<std::string>& names, const Position& at, Diagnostics& errors) {
  std::string message = fmt::format("{} has no {} '{}'", owner, what, name);
  if (const auto nearest = nearest_name(name, names)) {
    message += fmt::format("; nearest is '{}'", *nearest);
  } else if (names.empty()) {
    message += "; there are none";
  } else {
    message += fmt::format("; there are '{}'", fmt::join(names, "', '"));
  }
  errors.add(at, std::move(message));
}

}  // namespace millrace

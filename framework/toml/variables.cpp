#include "toml/variables.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "toml/expression.h"

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
      if (end == std::string::npos) return;               // evaluate() reports the mistake
      if (begin > 0 && text[begin - 1] == '$') continue;  // "$${" escapes "${"
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

// Binds each default once, after those that it refers to.
void bind(Value& variables, const Value& given, const Value& defaults, Diagnostics& errors) {
  for (const Member& member : given.table()) variables.set(member.key, member.value);
  struct Pending {
    const Member* member = nullptr;
    std::size_t waits = 0;                 // number of others
    std::vector<std::string> waited_by{};  // their keys
  };
  std::map<std::string, Pending> pending;
  for (const Member& member : defaults.table()) {
    if (!given.find(member.key)) pending[member.key].member = &member;
  }
  std::vector<Pending*> ready;
  for (const Member& member : defaults.table()) {  // in the file's order
    const auto self = pending.find(member.key);
    if (self == pending.end()) continue;
    for (const Reference& reference : references(member.value)) {
      const auto other = pending.find(reference.name);
      if (other == pending.end()) continue;
      other->second.waited_by.push_back(member.key);
      ++self->second.waits;
    }
    if (self->second.waits == 0) ready.push_back(&self->second);
  }
  for (std::size_t i = 0; i < ready.size(); ++i) {
    const Member& member = *ready[i]->member;
    variables.set(member.key, resolve(member.value, variables, errors));
    for (const std::string& key : ready[i]->waited_by) {
      if (Pending& other = pending[key]; --other.waits == 0) ready.push_back(&other);
    }
  }
  if (ready.size() == pending.size()) return;
  const auto waits = [&](const Member& member) { return pending.contains(member.key) && pending[member.key].waits > 0; };
  const auto first = std::ranges::find_if(defaults.table(), waits);
  errors.add(first->at, fmt::format("the default of '{}' depends on itself", first->key));
}

void report_unknown_name(const std::string& owner, const std::string& what, const std::string& name,
                         const std::vector<std::string>& names, const Position& at, Diagnostics& errors) {
  std::string message = fmt::format("{} has no {} '{}'", owner, what, name);
  if (!errors.names_nearest()) {
    // The first messages have named what there is.
  } else if (const auto nearest = nearest_name(name, names)) {
    message += fmt::format("; nearest is '{}'", *nearest);
  } else if (names.empty()) {
    message += "; there are none";
  } else {
    message += fmt::format("; there are '{}'", fmt::join(names, "', '"));
  }
  errors.add(at, std::move(message));
}

}  // namespace millrace

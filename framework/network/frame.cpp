#include "network/frame.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <set>

#include "network/variables.h"

namespace millrace {
namespace {

// `repeated`: one '#' may stand for the instance's number.
bool is_layer_name(const std::string& name, bool repeated) {
  return !name.empty() && std::count(name.begin(), name.end(), '#') <= (repeated ? 1 : 0) &&
         std::all_of(name.begin(), name.end(),
                     [](unsigned char c) { return std::isalnum(c) || c == '_' || c == '-' || c == '.' || c == '#'; }) &&
         name.front() != '.' && name.back() != '.';
}

// The base of an unnamed entry's name.
std::string family(const Value& entry) {
  for (const char* key : {"op", "block"}) {
    const Value* value = entry.find(key);
    if (value && value->kind() == Value::Kind::text) return value->text();
  }
  return "layer";
}

}  // namespace

void Frame::name_entries(const Array& entries, Diagnostics& errors) {
  std::map<std::string, Position> taken;
  names.assign(entries.size(), "");
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const Value* written = entries[i].find("name");
    if (!written) continue;
    const Value name = resolve(*written, variables, errors);
    if (name.kind() != Value::Kind::text || !is_layer_name(name.text(), entries[i].find("repeat") != nullptr)) {
      errors.add(name.at(), fmt::format("'name' must be text of letters, digits, '_', '-' and '.' (and one '#' beside 'repeat'), "
                                        "found {}",
                                        found(name)));
      continue;
    }
    const auto [first, is_new] = taken.emplace(name.text(), name.at());
    if (is_new) {
      names[i] = name.text();
    } else {
      errors.add(name.at(), fmt::format("the name '{}' is taken{}", name.text(),
                                        first->second.line > 0 ? fmt::format(" at line {}", first->second.line) : ""));
    }
  }
  std::map<std::string, int> numbers;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    if (!names[i].empty()) continue;
    const std::string kind = family(entries[i]);
    do {
      names[i] = kind + std::to_string(++numbers[kind]);
    } while (taken.contains(names[i]));
  }
}

void Frame::define(const std::string& name, LayerPort output) {
  const std::string full = prefix + name;
  for (Frame* frame = this; frame; frame = frame->outer)
    frame->outputs.insert_or_assign(full.substr(frame->prefix.size()), output);
}

LayerPort Frame::find(const std::string& name, const Position& at, const std::string& user, Diagnostics& errors) const {
  if (name == "@input") return input;
  for (const Frame* frame = this; frame; frame = frame->outer) {
    if (const auto output = frame->outputs.find(name); output != frame->outputs.end()) return output->second;
  }
  for (const Frame* frame = this; frame; frame = frame->outer) {
    if (std::find(frame->names.begin(), frame->names.end(), name) == frame->names.end()) continue;
    errors.add(at, fmt::format("'{}' takes the output of '{}', which is not an earlier layer", user, name));
    return kUnknownLayer;
  }
  std::vector<std::string> candidates = {"@input"};
  for (const Frame* frame = this; frame && errors.names_nearest(); frame = frame->outer) {
    for (const auto& [known, layer] : frame->outputs) candidates.push_back(known);
  }
  const auto nearest = nearest_name(name, candidates);
  errors.add(at, fmt::format("'{}' takes the output of '{}', but no earlier layer has this name{}", user, name,
                             nearest ? fmt::format("; nearest is '{}'", *nearest) : ""));
  return kUnknownLayer;
}

}  // namespace millrace

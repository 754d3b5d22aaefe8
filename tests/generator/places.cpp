#include "places.h"

#include <fmt/format.h>

#include <functional>

#include "toml/document.h"

namespace millrace::generator {

namespace {

using Visit = std::function<void(const Place& place, const Value& value, const Position* key)>;

void visit(const Value& value, Place& place, const Visit& look) {
  const auto enter = [&](PlaceStep step, const Value& child, const Position* key) {
    place.push_back(std::move(step));
    look(place, child, key);
    visit(child, place, look);
    place.pop_back();
  };
  if (value.kind() == Value::Kind::table) {
    for (const Member& member : value.table()) enter({member.key, 0}, member.value, &member.at);
  } else if (value.kind() == Value::Kind::array) {
    for (std::size_t i = 0; i < value.array().size(); ++i) enter({"", i}, value.array()[i], nullptr);
  }
}

}  // namespace

std::vector<Place> places(const Value& document) {
  std::vector<Place> found;
  Place place;
  visit(document, place, [&](const Place& at, const Value&, const Position*) { found.push_back(at); });
  return found;
}

void take_out(Value& document, const Place& place) {
  Value* value = &document;
  for (std::size_t i = 0; i + 1 < place.size(); ++i)
    value = place[i].key.empty() ? &value->array()[place[i].number] : value->find(place[i].key);
  const PlaceStep& last = place.back();
  if (last.key.empty()) {
    value->array().erase(value->array().begin() + static_cast<std::ptrdiff_t>(last.number));
  } else {
    value->erase(last.key);
  }
}

std::string to_string(const Place& place) {
  std::string text;
  for (const PlaceStep& step : place)
    text += step.key.empty() ? fmt::format("[{}]", step.number) : (text.empty() ? "" : ".") + step.key;
  return text;
}

std::optional<Place> place_at(const Value& document, int line, int column) {
  Diagnostics errors;
  const std::optional<Value> read = parse_toml(to_toml(document), "", errors);
  if (!read) return std::nullopt;
  std::optional<Place> exact, near;
  Place place;
  visit(*read, place, [&](const Place& at, const Value& value, const Position* key) {
    const bool in_line = value.at().line == line || (key != nullptr && key->line == line);
    if (!in_line) return;
    if (value.at().column == column || (key != nullptr && key->column == column)) exact = at;
    near = at;
  });
  return exact ? exact : near;
}

}  // namespace millrace::generator

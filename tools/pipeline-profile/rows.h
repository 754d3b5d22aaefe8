// Rows of values as JSON and as CSV. A type lists its members once:
//
//   template <>
//   inline constexpr auto kRowMembers<Point> = std::tuple(RowMember{"ranks", &Point::ranks}, RowMember{"rate", &Point::rate});
//
//   json_of(points).dump();   // [{"ranks": 1, "rate": 1000.0}]
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <tuple>
#include <vector>

namespace millrace {

using Json = nlohmann::ordered_json;

template <class Row, class Value>
struct RowMember {
  const char* name;
  Value Row::*value;
};
template <class Row, class Value>
RowMember(const char*, Value Row::*) -> RowMember<Row, Value>;

template <class Row>
inline constexpr std::tuple<> kRowMembers;

template <class Row>
Json json_of(const Row& row) {
  Json json;
  std::apply([&](const auto&... member) { ((json[member.name] = row.*(member.value)), ...); }, kRowMembers<Row>);
  return json;
}
template <class Row>
Json json_of(const std::vector<Row>& rows) {
  Json json = Json::array();
  for (const Row& row : rows) json.push_back(json_of(row));
  return json;
}

// Throws nlohmann's exceptions if a member is missing or has another type.
template <class Row>
Row row_of(const Json& json) {
  Row row;
  std::apply([&](const auto&... member) { ((json.at(member.name).get_to(row.*(member.value))), ...); }, kRowMembers<Row>);
  return row;
}
template <class Row>
std::vector<Row> rows_of(const Json& json) {
  std::vector<Row> rows;
  for (const Json& row : json) rows.push_back(row_of<Row>(row));
  return rows;
}

// A line with the members' names, and one for each row. Texts must not contain commas.
std::string csv_of(const Json& rows, const std::vector<std::string>& names);
template <class Row>
std::string csv_of(const std::vector<Row>& rows) {
  std::vector<std::string> names;
  std::apply([&](const auto&... member) { (names.emplace_back(member.name), ...); }, kRowMembers<Row>);
  return csv_of(json_of(rows), names);
}

}  // namespace millrace

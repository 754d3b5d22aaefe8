#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <type_traits>

#include "millrace/error.h"
#include "report.h"

namespace millrace {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kVersion = 1;

constexpr std::array kKinds = {"unknown", "device", "data", "credit", "sums", "standstill"};  // as Bottleneck::Kind

// The members of a row, once for both directions.
template <class Row, class Do>
void each_member(Row& row, Do&& member) requires std::is_same_v<std::remove_const_t<Row>, Profile::Stage> {
  member("name", row.name);
  member("on", row.on);
  member("images_per_second", row.here);
  member("alone_per_second", row.alone);
  member("mean_seconds", row.mean);
  member("p50_seconds", row.p50);
  member("p99_seconds", row.p99);
  member("busy", row.busy);
  member("cores", row.cores);
  member("bytes_per_second", row.bytes);
  member("starved", row.starved);
  member("waits_for_credit", row.waits_for_credit);
  member("wait_seconds", row.wait);
  member("level", row.level);
  member("packets", row.packets);
}

template <class Row, class Do>
void each_member(Row& row, Do&& member) requires std::is_same_v<std::remove_const_t<Row>, Profile::Device> {
  member("name", row.name);
  member("rank", row.rank);
  member("forward_backward", row.forward_backward);
  member("update", row.update);
  member("copy", row.copy);
  member("waits_for_sums", row.sums);
  member("idle", row.idle);
  member("memory_bytes", row.memory);
}

template <class Row, class Do>
void each_member(Row& row, Do&& member) requires std::is_same_v<std::remove_const_t<Row>, Profile::Part> {
  member("name", row.name);
  member("wait_seconds", row.wait);
  member("work_seconds", row.work);
}

template <class Row, class Do>
void each_member(Row& row, Do&& member) requires std::is_same_v<std::remove_const_t<Row>, Profile::Gain> {
  member("change", row.change);
  member("images_per_second", row.rate);
  member("then_bound_by", row.then);
}

template <class Row, class Do>
void each_member(Row& row, Do&& member) requires std::is_same_v<std::remove_const_t<Row>, Profile> {
  member("file", row.file);
  member("graph", row.graph);
  member("seconds", row.seconds);
  member("steps", row.steps);
  member("images_per_second", row.rate);
  member("data_threads", row.data_threads);
  member("io_threads", row.io_threads);
  member("cores", row.cores);
  member("waited_for_data", row.waited_for_data);
  member("waited_for_step", row.waited_for_step);
}

template <class Row>
Json json_of(const Row& row) {
  Json json;
  each_member(row, [&json](const char* name, const auto& value) { json[name] = value; });
  return json;
}

template <class Row>
Json json_of(const std::vector<Row>& rows) {
  Json json = Json::array();
  for (const Row& row : rows) json.push_back(json_of(row));
  return json;
}

template <class Row>
Row row_of(const Json& json) {
  Row row;
  each_member(row, [&json](const char* name, auto& value) { json.at(name).get_to(value); });
  return row;
}

template <class Row>
void rows_of(const Json& json, std::vector<Row>& rows) {
  for (const Json& row : json) rows.push_back(row_of<Row>(row));
}

}  // namespace

std::string to_json(const Profile& profile) {
  Json json{{"pipeline_profile", kVersion}};
  json.update(json_of(profile));
  const Bottleneck& found = profile.bottleneck;
  json["bottleneck"] = {{"kind", kKinds[static_cast<std::size_t>(found.kind)]},
                        {"name", found.name},
                        {"replica", found.replica},
                        {"share", found.share},
                        {"device_idle", found.device_idle},
                        {"computing_share", found.computing_share},
                        {"text", found.text()}};
  json["gains"] = json_of(profile.gains);
  json["stages"] = json_of(profile.stages);
  json["devices"] = json_of(profile.devices);
  json["way_of_a_step"] = json_of(profile.path);
  return json.dump(2) + "\n";
}

Profile profile_from_json(std::string_view text, const std::string& file) {
  try {
    const Json json = Json::parse(text);
    if (json.value("pipeline_profile", 0) != kVersion) throw std::invalid_argument("no such report");
    auto profile = row_of<Profile>(json);
    const Json& found = json.at("bottleneck");
    const auto kind = std::ranges::find(kKinds, found.at("kind").get<std::string>());
    if (kind != kKinds.end()) profile.bottleneck.kind = static_cast<Bottleneck::Kind>(kind - kKinds.begin());
    found.at("name").get_to(profile.bottleneck.name);
    found.at("replica").get_to(profile.bottleneck.replica);
    found.at("share").get_to(profile.bottleneck.share);
    found.at("device_idle").get_to(profile.bottleneck.device_idle);
    found.at("computing_share").get_to(profile.bottleneck.computing_share);
    rows_of(json.at("gains"), profile.gains);
    rows_of(json.at("stages"), profile.stages);
    rows_of(json.at("devices"), profile.devices);
    rows_of(json.at("way_of_a_step"), profile.path);
    return profile;
  } catch (const std::exception&) {
    fail(ErrorKind::data, "'{}' is no report of pipeline-profile --json: make one with `pipeline-profile FILE --json > {}`", file,
         file);
  }
}

}  // namespace millrace

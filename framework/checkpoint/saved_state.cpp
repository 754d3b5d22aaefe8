#include "checkpoint/saved_state.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "base/json.h"
#include "millrace/error.h"

namespace millrace {
namespace {

// JSON cannot represent infinities or NaN, which a failing run's sums may hold.
Json of_number(double value) {
  if (std::isfinite(value)) return value;
  return std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf";
}

double to_number(const Json& json) {
  if (!json.is_string()) return json.get<double>();
  const auto text = json.get<std::string>();
  if (text == "nan") return std::numeric_limits<double>::quiet_NaN();
  if (text == "inf") return std::numeric_limits<double>::infinity();
  if (text == "-inf") return -std::numeric_limits<double>::infinity();
  fail(ErrorKind::data, "'{}' is not a number", text);
}

Json of_epoch(const SavedState::Epoch& epoch) {
  Json sums = Json::array();
  for (const double sum : epoch.sums.values) sums.push_back(of_number(sum));
  return {{"seconds", epoch.seconds},
          {"samples", epoch.samples},
          {"steps", epoch.steps},
          {"stream_hash", epoch.stream_hash},
          {"sums", sums}};
}

SavedState::Epoch to_epoch(const Json& json) {
  SavedState::Epoch epoch;
  json.at("seconds").get_to(epoch.seconds);
  json.at("samples").get_to(epoch.samples);
  json.at("steps").get_to(epoch.steps);
  json.at("stream_hash").get_to(epoch.stream_hash);
  for (const Json& sum : json.at("sums")) epoch.sums.values.push_back(to_number(sum));
  return epoch;
}

Json of_watched(const std::map<std::string, SavedState::Watched>& all) {
  Json json = Json::object();
  for (const auto& [key, watched] : all) {
    Json& each = json[key] = {{"passes", watched.passes}};
    if (watched.cooldown > 0) each["cooldown"] = watched.cooldown;
    if (!watched.best) continue;
    each["best"] = of_number(*watched.best);
    each["best_step"] = watched.best_step;
    if (watched.batch_size > 0) each["batch_size"] = watched.batch_size;
  }
  return json;
}

std::map<std::string, SavedState::Watched> to_watched(const Json& json) {
  std::map<std::string, SavedState::Watched> all;
  for (const auto& [key, each] : json.items()) {
    SavedState::Watched& watched = all[key];
    each.at("passes").get_to(watched.passes);
    watched.cooldown = each.value("cooldown", std::uint64_t{0});
    if (!each.contains("best")) continue;
    watched.best = to_number(each.at("best"));
    each.at("best_step").get_to(watched.best_step);
    watched.batch_size = each.value("batch_size", std::uint64_t{0});
  }
  return all;
}

Json of_data(const std::map<std::string, SavedState::Data>& all) {
  Json json = Json::object();
  for (const auto& [source, data] : all) {
    Json& each = json[source] = {{"samples", data.samples}, {"classes", data.classes}};
    if (!data.listing_hash) continue;
    each["class_counts"] = data.class_counts;
    each["listing_hash"] = *data.listing_hash;
    if (!data.contents.sizes.empty()) each["sizes"] = data.contents.sizes;
    if (!data.contents.samples.empty()) each["sampled"] = data.contents.samples;
    if (!data.contents.whole.empty()) each["contents"] = data.contents.whole;
  }
  return json;
}

std::map<std::string, SavedState::Data> to_data(const Json& json) {
  std::map<std::string, SavedState::Data> all;
  for (const auto& [source, each] : json.items()) {
    SavedState::Data& data = all[source];
    each.at("samples").get_to(data.samples);
    each.at("classes").get_to(data.classes);
    if (!each.contains("listing_hash")) continue;
    each.at("class_counts").get_to(data.class_counts);
    data.listing_hash = each.at("listing_hash").get<std::uint64_t>();
    if (each.contains("sizes")) each.at("sizes").get_to(data.contents.sizes);
    if (each.contains("sampled")) each.at("sampled").get_to(data.contents.samples);
    if (each.contains("contents")) each.at("contents").get_to(data.contents.whole);
  }
  return all;
}

Json of_batches(const std::vector<SavedState::BatchHash>& batches) {
  Json json = Json::array();
  for (const auto& [stream, images] : batches) json.push_back({stream, images});
  return json;
}

std::vector<SavedState::BatchHash> to_batches(const Json& json) {
  std::vector<SavedState::BatchHash> batches;
  for (const Json& each : json) batches.push_back({each.at(0).get<std::uint64_t>(), each.at(1).get<std::uint64_t>()});
  return batches;
}

Json of_bad_samples(const std::vector<SavedState::BadSample>& samples) {
  Json json = Json::array();
  for (const auto& [graph, epoch, position, attempt] : samples) json.push_back({graph, epoch, position, attempt});
  return json;
}

std::vector<SavedState::BadSample> to_bad_samples(const Json& json) {
  std::vector<SavedState::BadSample> samples;
  for (const Json& each : json) {
    samples.push_back({each.at(0).get<std::string>(), each.at(1).get<std::uint64_t>(), each.at(2).get<std::uint64_t>(),
                       each.at(3).get<std::uint64_t>()});
  }
  return samples;
}

SavedState to_state(const Json& json) {
  if (const int format = json.at("format").get<int>(); format != SavedState::kFormat) {
    fail(ErrorKind::data, "it has format {}, but this program reads {}", format, SavedState::kFormat);
  }
  SavedState state;
  json.at("step").get_to(state.step);
  json.at("epoch").get_to(state.epoch);
  json.at("step_of_epoch").get_to(state.step_of_epoch);
  state.batch_size = json.value("batch_size", std::uint64_t{0});
  json.at("first_step").get_to(state.first_step);
  json.at("seconds").get_to(state.seconds);
  json.at("rate_factor").get_to(state.rate_factor);
  json.at("passes_due").get_to(state.left.passes);
  state.left.run_is_over = json.value("is_over", false);
  state.left.best_passes = json.value("best_passes_due", false);
  state.so_far = to_epoch(json.at("epoch_so_far"));
  state.watched = to_watched(json.at("watched"));
  json.at("stages").get_to(state.stages);
  json.at("metadata").get_to(state.metadata);
  json.at("backend").get_to(state.backend);
  json.at("precision").get_to(state.precision);
  json.at("replicas").get_to(state.replicas);
  if (json.contains("versions")) {
    json.at("versions").get_to(state.versions);
    json.at("network").get_to(state.network);
  }
  if (json.contains("data")) state.data = to_data(json.at("data"));
  if (json.contains("batches")) {  // older checkpoints lack them
    state.batches = to_batches(json.at("batches"));
    json.at("bad_samples").get_to(state.bad_samples);
    state.bad_and_ahead = to_bad_samples(json.at("bad_and_ahead"));
  }
  return state;
}

}  // namespace

std::string to_json(const SavedState& state) {
  const Json json = {{"format", SavedState::kFormat},
                     {"step", state.step},
                     {"epoch", state.epoch},
                     {"step_of_epoch", state.step_of_epoch},
                     {"batch_size", state.batch_size},
                     {"first_step", state.first_step},
                     {"seconds", state.seconds},
                     {"rate_factor", state.rate_factor},
                     {"passes_due", state.left.passes},
                     {"is_over", state.left.run_is_over},
                     {"best_passes_due", state.left.best_passes},
                     {"epoch_so_far", of_epoch(state.so_far)},
                     {"watched", of_watched(state.watched)},
                     {"stages", state.stages},
                     {"metadata", state.metadata},
                     {"backend", state.backend},
                     {"precision", state.precision},
                     {"versions", state.versions},
                     {"network", state.network},
                     {"replicas", state.replicas},
                     {"data", of_data(state.data)},
                     {"batches", of_batches(state.batches)},
                     {"bad_samples", state.bad_samples},
                     {"bad_and_ahead", of_bad_samples(state.bad_and_ahead)}};
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

SavedState read_saved_state(const std::string& json) {
  try {
    return to_state(Json::parse(json));
  } catch (const Json::exception& error) {
    fail(ErrorKind::data, "{}", error.what());
  }
}

}  // namespace millrace

#include "checkpoint/changes.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <set>

#include "config/document.h"
#include "config/kept_run.h"
#include "config/stop_plan.h"
#include "millrace/error.h"
#include "millrace/plugin.h"

namespace millrace {
namespace {

// Differences between two lists of classes, if any.
void compare_classes(const std::string& key, const std::vector<std::string>& then, const std::vector<std::string>& now,
                     std::vector<Difference>& found) {
  if (then.size() != now.size()) {
    found.push_back({key, fmt::format("{} classes", then.size()), fmt::format("{} classes", now.size())});
    return;
  }
  const auto [was, is] = std::mismatch(then.begin(), then.end(), now.begin());
  if (was == then.end()) return;
  const auto label = was - then.begin();
  found.push_back({key, fmt::format("class {} '{}'", label, *was), fmt::format("class {} '{}'", label, *is)});
}

// Differences between two listings with equal counts of samples and equal classes: the count of a class, if known.
void compare_listings(const std::string& key, const std::string& place, const SavedState::Data& then, const SavedState::Data& now,
                      std::vector<Difference>& found) {
  if (!then.listing_hash || !now.listing_hash || then.listing_hash == now.listing_hash) return;
  const std::string what =
      fmt::format("{}{}names of samples, their labels or their order have changed", place, place.empty() ? "" : ": ");
  const auto [was, is] = std::ranges::mismatch(then.class_counts, now.class_counts);
  if (was == then.class_counts.end() || is == now.class_counts.end()) {
    found.push_back({key, fmt::format("{:016x}", *then.listing_hash), fmt::format("{:016x} ({})", *now.listing_hash, what)});
    return;
  }
  const std::string& name = now.classes[static_cast<std::size_t>(is - now.class_counts.begin())];
  found.push_back({key, fmt::format("{} of class '{}'", *was, name), fmt::format("{} ({})", *is, what)});
}

template <class Params>
void add_params(const std::string& table, std::vector<std::string>& keys) {
  ParamSet<Params> set;
  Params::describe(set);
  keys.push_back(table);
  for (const ParamInfo& param : set.infos()) keys.push_back(fmt::format("{}.{}", table, param.name));
}

// Compares two resolved files. Values from the environment are compared too, since older checkpoints hold them as text, but are
// not shown.
std::vector<Difference> file_differences(const Value& then, const Value& now, const Pipeline& plan) {
  std::set<std::string> left_out = keys_that_may_change(plan);
  left_out.insert({"run.devices", "run.precision"});  // compared as chosen values
  std::vector<Difference> found = differences(then, now, left_out);
  const std::vector<Difference> meant = differences(with_environment(then), with_environment(now), left_out);
  std::erase_if(found,
                [&](const Difference& each) { return std::ranges::find(meant, each.key, &Difference::key) == meant.end(); });
  return found;
}

}  // namespace

RunComparison compare_with_checkpoint(const FoundCheckpoint& from, const RunRecord& now, const Pipeline& plan) {
  const SavedState& state = from.checkpoint.state;
  Diagnostics errors;
  const auto file_then = parse_toml(from.checkpoint.pipeline, (from.path / "pipeline.toml").string(), errors);
  const auto file_now = parse_toml(now.pipeline, plan.file, errors);
  errors.throw_if_any();
  RunComparison comparison;
  std::vector<Difference>& found = comparison.differences;
  found = file_differences(*file_then, *file_now, plan);
  for (const Value* document : {&*file_then, &*file_now}) add_keys("", *document, comparison.keys);
  if (!state.network.empty()) {  // older checkpoints lack it
    // Only the location of the network's file.
    std::erase_if(found, [](const Difference& each) { return each.key == "network.use"; });
    const auto network_then = parse_toml(state.network, "the checkpoint's network", errors);
    const auto network_now = parse_toml(now.network, plan.network_params.use, errors);
    errors.throw_if_any();
    std::ranges::move(document_differences("network.use", *network_then, *network_now), std::back_inserter(found));
    for (const Value* document : {&*network_then, &*network_now}) add_keys("network.use", *document, comparison.keys);
  }
  const std::map<std::string, std::string> sources = places_of_sources(plan);
  std::erase_if(found, [&](const Difference& each) {
    const std::string source = each.key.substr(0, each.key.rfind('.'));
    if (!is_path_of(source, each.key)) return false;
    const auto then = state.data.find(source), is = now.data.find(source);
    if (is == now.data.end()) return sources.contains(source);  // belongs to a graph that does not run
    return then != state.data.end() && then->second.listing_hash && then->second.listing_hash == is->second.listing_hash;
  });
  std::ranges::move(data_differences(state.data, now.data, places_of_sources(plan)), std::back_inserter(found));
  const auto compare = [&](const char* key, const std::string& before, const std::string& after) {
    if (before != after) found.push_back({key, before, after});
  };
  compare("run.precision", state.precision, now.precision);
  compare("run.devices", fmt::format("{}*{}", state.backend, state.replicas), fmt::format("{}*{}", now.backend, now.replicas));
  add_possible_keys(plan, comparison.keys);
  for (const Difference& each : found) comparison.keys.push_back(each.key);
  return comparison;
}

void require_allowed(const RunComparison& comparison, const std::vector<std::string>& allowed, const std::string& pipeline,
                     const std::string& checkpoint) {
  require_keys(allowed, comparison.keys);
  std::string text, options;
  for (const Difference& each : comparison.differences) {
    if (is_allowed(each.key, allowed)) continue;
    const auto value_text = [](const std::string& value) { return value.empty() ? std::string("not set") : value; };
    text += fmt::format("\n  {}: {} before, now {}", each.key, value_text(each.then), value_text(each.now));
    options += " --allow-change " + each.key;
  }
  if (text.empty()) return;
  fail(ErrorKind::usage,
       "{}: the pipeline has changed since the checkpoint '{}'. Restore these keys, or allow each with --allow-change KEY:{}\n"
       "to allow them all:{}",
       pipeline, checkpoint, text, options);
}

std::vector<Difference> data_differences(const std::map<std::string, SavedState::Data>& then,
                                         const std::map<std::string, SavedState::Data>& now,
                                         const std::map<std::string, std::string>& places) {
  std::vector<Difference> found;
  for (const auto& [source, was] : then) {
    const auto is = now.find(source);
    if (is == now.end()) continue;
    if (was.samples != is->second.samples) {
      found.push_back({source + ".samples", std::to_string(was.samples), std::to_string(is->second.samples)});
    }
    compare_classes(source + ".classes", was.classes, is->second.classes, found);
    if (was.samples != is->second.samples || was.classes != is->second.classes) continue;  // their keys explain another listing
    const auto place = places.find(source);
    compare_listings(source + ".listing", place == places.end() ? "" : place->second, was, is->second, found);
  }
  return found;
}

bool is_path_of(const std::string& source, const std::string& key) {
  return key.starts_with(source + '.') && is_data_path(key.substr(source.size() + 1));
}

std::map<std::string, std::string> places_of_sources(const Pipeline& pipeline) {
  std::map<std::string, std::string> places;
  for (const GraphPlan& graph : pipeline.graphs) {
    for (const StagePlan& stage : graph.stages) {
      if (stage.type->role == StageType::Role::source)
        places[fmt::format("{}.{}", graph.name, stage.name)] = to_string(stage.table_at());
    }
  }
  return places;
}

void add_keys(const std::string& key, const Value& value, std::vector<std::string>& keys) {
  if (!key.empty()) keys.push_back(key);
  if (value.kind() == Value::Kind::table) {
    for (const Member& member : value.table()) {
      add_keys(key.empty() ? member.key : fmt::format("{}.{}", key, member.key), member.value, keys);
    }
  } else if (value.kind() == Value::Kind::array) {
    for (std::size_t i = 0; const Value& each : value.array()) {
      if (each.kind() == Value::Kind::table) add_keys(fmt::format("{}[{}]", key, i), each, keys);
      ++i;
    }
  }
}

void add_possible_keys(const Pipeline& pipeline, std::vector<std::string>& keys) {
  add_params<RunParams>("run", keys);
  add_params<StopParams>("stop", keys);
  add_params<PlateauParams>("plateau", keys);
  keys.insert(keys.end(), {"network", "network.use"});
  for (const GraphPlan& graph : pipeline.graphs) {
    for (const StagePlan& stage : graph.stages) {
      const std::string table = fmt::format("{}.{}", graph.name, stage.name);
      keys.push_back(table);
      for (const ParamInfo& param : stage.type->params) keys.push_back(fmt::format("{}.{}", table, param.name));
      if (stage.type->role != StageType::Role::source) continue;
      for (const char* key : {"samples", "classes", "listing"}) keys.push_back(fmt::format("{}.{}", table, key));
    }
  }
}

namespace {

// Also matches a short option, or one word of a key: lr, batch, epochs.
std::optional<std::string> nearest_key(const std::string& name, const std::vector<std::string>& keys) {
  if (auto near = nearest_name(name, keys)) return near;
  const std::string word = name == "lr" ? "learning_rate" : name;
  const auto has_word = [&](const std::string& key) {
    return fmt::format(".{}.", key).find("." + word + ".") != std::string::npos;
  };
  const auto found = std::ranges::find_if(keys, has_word);
  return found == keys.end() ? std::nullopt : std::optional(*found);
}

}  // namespace

void require_keys(const std::vector<std::string>& allowed, const std::vector<std::string>& keys) {
  for (const std::string& each : allowed) {
    if (std::find(keys.begin(), keys.end(), each) != keys.end()) continue;
    const auto near = nearest_key(each, keys);
    fail(ErrorKind::usage, "--allow-change {}: unknown key{}", each,
         near ? fmt::format("; nearest is '{}'", *near) : std::string());
  }
}

}  // namespace millrace

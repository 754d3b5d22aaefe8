#include "config/difference.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string_view>

namespace millrace {
namespace {

bool counts(const std::string& table, const Value* then, const Value* now) {
  if (table == "run" || table == "network" || table == "stop" || table == "plateau") return true;
  return (then && then->find("flow")) || (now && now->find("flow"));
}

std::string written(const Value* value) {
  if (!value) return {};
  if (value->kind() != Value::Kind::table) return to_toml(*value);
  std::string text;
  for (const Member& member : value->table()) {
    text += fmt::format("{}{} = {}", text.empty() ? "" : ", ", member.key, written(&member.value));
  }
  return fmt::format("{{{}}}", text);
}

struct MemberPair {
  std::string key;
  const Value *then = nullptr, *now = nullptr;
};

// The members of both tables, which may be null, by key; in the order of the first table, then of the second.
std::vector<MemberPair> pairs_of(const Value* then, const Value* now) {
  std::vector<MemberPair> pairs;
  std::map<std::string_view, std::size_t> places;  // a table may have very many keys
  const auto add = [&](const Value* table, const Value* MemberPair::*side) {
    if (!table) return;
    for (const Member& member : table->table()) {
      const auto [place, is_new] = places.emplace(member.key, pairs.size());
      if (is_new) pairs.push_back({.key = member.key});
      pairs[place->second].*side = &member.value;
    }
  };
  add(then, &MemberPair::then);
  add(now, &MemberPair::now);
  return pairs;
}

void compare(const std::string& key, const Value* then, const Value* now, const std::set<std::string>& left_out,
             std::vector<Difference>& found) {
  if (left_out.contains(key)) return;
  const auto is_table = [](const Value* value) { return !value || value->kind() == Value::Kind::table; };
  if (is_table(then) && is_table(now)) {
    for (const MemberPair& inner : pairs_of(then, now)) {
      compare(fmt::format("{}.{}", key, inner.key), inner.then, inner.now, left_out, found);
    }
  } else if (written(then) != written(now)) {
    found.push_back({key, written(then), written(now)});
  }
}

bool is_list_of_tables(const Value* value) {
  if (value == nullptr || value->kind() != Value::Kind::array) return false;
  return std::ranges::all_of(value->array(), [](const Value& each) { return each.kind() == Value::Kind::table; });
}

void compare_document(const std::string& key, const Value* then, const Value* now, std::vector<Difference>& found) {
  const auto is_table = [](const Value* value) { return value != nullptr && value->kind() == Value::Kind::table; };
  if (is_table(then) && is_table(now)) {
    for (const MemberPair& inner : pairs_of(then, now))
      compare_document(fmt::format("{}.{}", key, inner.key), inner.then, inner.now, found);
  } else if (is_list_of_tables(then) && is_list_of_tables(now)) {
    const Array &before = then->array(), &after = now->array();
    if (before.size() != after.size()) {
      found.push_back({key, fmt::format("{} entries", before.size()), fmt::format("{} entries", after.size())});
      return;
    }
    for (std::size_t i = 0; i < before.size(); ++i) compare_document(fmt::format("{}[{}]", key, i), &before[i], &after[i], found);
  } else if (written(then) != written(now)) {
    found.push_back({key, written(then), written(now)});
  }
}

}  // namespace

std::vector<Difference> document_differences(const std::string& key, const Value& then, const Value& now) {
  std::vector<Difference> found;
  compare_document(key, &then, &now, found);
  return found;
}

std::set<std::string> keys_that_may_change(const Pipeline& pipeline) {
  std::set<std::string> keys;
  const auto add = [&](const std::string& table, const std::vector<ParamInfo>& params) {
    for (const ParamInfo& info : params) {
      if (info.may_change) keys.insert(fmt::format("{}.{}", table, info.name));
    }
  };
  ParamSet<RunParams> run;
  RunParams::describe(run);
  add("run", run.infos());
  ParamSet<NetworkParams> network;
  NetworkParams::describe(network);
  add("network", network.infos());
  for (const GraphPlan& graph : pipeline.graphs) {
    for (const StagePlan& stage : graph.stages) add(fmt::format("{}.{}", graph.name, stage.name), stage.type->params);
  }
  return keys;
}

std::vector<Difference> differences(const Value& then, const Value& now, const std::set<std::string>& left_out) {
  std::vector<Difference> found;
  for (const MemberPair& table : pairs_of(&then, &now)) {
    if (counts(table.key, table.then, table.now)) compare(table.key, table.then, table.now, left_out, found);
  }
  return found;
}

bool is_allowed(const std::string& key, const std::vector<std::string>& allowed) {
  return std::any_of(allowed.begin(), allowed.end(),
                     [&](const std::string& each) { return key == each || key.starts_with(each + "."); });
}

}  // namespace millrace

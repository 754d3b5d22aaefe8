#include "data_parts.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "millrace/detail/value.h"
#include "millrace/error.h"
#include "millrace/util/standard_error.h"
#include "millrace/util/text.h"

namespace millrace {

namespace {

bool is_one_of(std::string_view key, std::initializer_list<std::string_view> keys) { return std::ranges::count(keys, key) > 0; }

// Keys common to all sources (SourceParams in source.h).
bool orders(const Member& member) { return is_one_of(member.key, {"shuffle", "balance", "class_weights"}); }
bool narrows(const Member& member) { return is_one_of(member.key, {"limit", "part", "part_seed", "only"}); }

bool has(const Value& table, const Member& member) {
  const Value* const value = table.find(member.key);
  return value != nullptr && to_toml(*value) == to_toml(member.value);
}

// True if all samples of `part` are in `whole`.
bool is_within(const StagePlan& part, const StagePlan& whole) {
  const Value &in = part.table, &all = whole.table;
  const bool may_narrow = all.find("limit") == nullptr;  // spread over the remaining samples
  return part.type == whole.type &&
         std::ranges::all_of(all.table(), [&](const Member& member) { return orders(member) || has(in, member); }) &&
         std::ranges::all_of(in.table(), [&](const Member& member) {
           return orders(member) || has(all, member) || (may_narrow && narrows(member));
         });
}

// What distinguishes its samples from those of `read`: path = "photos/val".
std::string difference(const StagePlan& part, const StagePlan& read) {
  for (const Member& member : part.table.table()) {
    if (!orders(member) && !has(read.table, member)) return fmt::format("{} = {}", member.key, to_toml(member.value));
  }
  return fmt::format("stage = \"{}\"", part.type->name);
}

// "" if counting needs a network, or if they are unreadable.
std::string number_of_samples(const DataSet& data, const GraphPlan& part) {
  if (to_toml(part.stages.front().table).find("://") != std::string::npos) return {};
  try {
    const std::uint64_t samples = data.samples_of(part);
    return fmt::format("{} sample{}", samples, samples == 1 ? "" : "s");
  } catch (const Error&) {
    return {};
  }
}

}  // namespace

std::vector<const GraphPlan*> other_parts(const DataSet& data) {
  std::vector<const GraphPlan*> parts = {&data.graph()};
  for (const GraphPlan& graph : data.pipeline().graphs) {
    const auto holds_all = [&](const GraphPlan* part) { return is_within(graph.stages.front(), part->stages.front()); };
    const bool reads = !graph.when.never && graph.stages.front().type->role == StageType::Role::source;
    if (reads && std::ranges::none_of(parts, holds_all)) parts.push_back(&graph);
  }
  parts.erase(parts.begin());
  return parts;
}

void warn_of_other_parts(const DataSet& data, const DataSetOptions& options) {
  if (!options.graph.empty()) return;
  for (const GraphPlan* part : other_parts(data)) {
    const std::string samples = number_of_samples(data, *part);
    print_to_stderr("warning: the data of [{0}] are not included{1} ({2}); --graph {0} selects them\n", part->name,
                    samples.empty() ? "" : ", " + samples,
                    line_text(difference(part->stages.front(), data.graph().stages.front())));
  }
}

}  // namespace millrace

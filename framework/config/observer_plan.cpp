#include "config/observer_plan.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "millrace/observer.h"
#include "millrace/util/load_plugins.h"

namespace millrace {
namespace {

std::string no_such_observer(const std::string& name, const Registry& registry) {
  const std::vector<std::string> names = registry.observers().names();
  const auto nearest = registry.observers().nearest(name);
  return fmt::format("[observe]: there is no observer '{}'; {}{}", name,
                     nearest         ? fmt::format("nearest is '{}'", *nearest)
                     : names.empty() ? std::string("no plugin brings one")
                                     : fmt::format("there are '{}'", fmt::join(names, "', '")),
                     skipped_clause(registry, name));
}

}  // namespace

std::vector<ObserverPlan> plan_observers(const Value* observe, const Registry& registry, Diagnostics& errors) {
  std::vector<ObserverPlan> plans;
  for (const auto& [name, type] : registry.observers()) {
    const Value* written = observe ? observe->find(name) : nullptr;
    if (written ? written->kind() == Value::Kind::table : type.by_default) {
      plans.push_back({name, &type, written ? *written : Value()});
    } else if (written && written->kind() == Value::Kind::boolean && written->boolean()) {
      plans.push_back({name, &type, Value(Table{}, written->at())});
    }
  }
  for (const ObserverPlan& plan : plans) plan.type->check(plan.table, "[observe." + plan.name + "]", errors);
  if (!observe) return plans;
  if (observe->kind() != Value::Kind::table) {
    errors.add(observe->at(), "[observe] must be a table, with a table for each observer, found " + found(*observe));
    return plans;
  }
  for (const Member& member : observe->table()) {
    if (!registry.observers().find(member.key)) {
      errors.add(member.at, no_such_observer(member.key, registry));
    } else if (member.value.kind() != Value::Kind::table && member.value.kind() != Value::Kind::boolean) {
      errors.add(member.value.at(), fmt::format("'observe.{}' must be a table, or false to leave this observer out, found {}",
                                                member.key, found(member.value)));
    }
  }
  return plans;
}

}  // namespace millrace

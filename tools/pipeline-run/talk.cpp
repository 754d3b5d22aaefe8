#include "talk.h"

#include <algorithm>

#include "millrace/error.h"
#include "millrace/util/load_plugins.h"

namespace millrace {
namespace {

// Its table, even if the file has disabled the observer.
Value& table_of(const char* name, const Registry& registry, Pipeline& pipeline) {
  std::vector<ObserverPlan>& all = pipeline.observers;
  const auto found = std::ranges::find(all, name, &ObserverPlan::name);
  if (found != all.end()) return found->table;
  const ObserverType* const type = registry.observers().find(name);
  if (type == nullptr) fail(ErrorKind::usage, "there is no observer '{}'{}", name, skipped_clause(registry, name));
  const auto place = std::ranges::lower_bound(all, std::string_view(name), {}, &ObserverPlan::name);
  return all.insert(place, {.name = name, .type = type, .table = Value()})->table;
}

}  // namespace

void talk_as_asked(const CommandLine& line, const Registry& registry, Pipeline& pipeline) {
  if (line.json) table_of("metrics", registry, pipeline).set("standard_output", Value(true));
  if (line.top) table_of("top", registry, pipeline);
  if (!line.page.empty()) {
    Value& page = table_of("page", registry, pipeline);
    page.set("address", Value(line.page));
    Diagnostics errors;
    registry.observers().find("page")->check(page, "--page", errors);
    errors.throw_if_any();
  }
  std::vector<ObserverPlan>& all = pipeline.observers;
  const auto console = std::ranges::find(all, "console", &ObserverPlan::name);
  if (console == all.end()) return;
  if (line.quiet) console->table.set("quiet", Value(true));
  if (line.draws) all.erase(console);
}

}  // namespace millrace

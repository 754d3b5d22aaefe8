#include "config/outputs_of_data.h"

#include <algorithm>
#include <memory>

#include "base/silent_services.h"
#include "millrace/error.h"
#include "millrace/source.h"
#include "millrace/stage.h"
#include "sampling/sample_order.h"

namespace millrace {

std::int64_t outputs_of_data(const GraphPlan& graph, const Registry& registry) {
  const auto is_source = [](const StagePlan& stage) {
    return stage.type != nullptr && stage.type->role == StageType::Role::source;
  };
  const auto source = std::ranges::find_if(graph.stages, is_source);
  if (source == graph.stages.end()) return 0;
  const Value* const numbers = source->table.find("numbers");
  if (numbers != nullptr && numbers->kind() == Value::Kind::array && !numbers->array().empty())
    return static_cast<std::int64_t>(numbers->array().size());
  SilentServices silent;  // a source's warnings appear when the run lists its data
  StageSite site;
  site.graph = graph.name;
  site.name = source->name;
  site.run = &silent;
  site.registry = &registry;
  Diagnostics errors;
  try {
    const std::shared_ptr<Stage> stage = source->type->create(source->table, site, errors);
    if (stage == nullptr || errors.size() > 0) return 0;
    Source& opened = static_cast<Source&>(*stage);
    opened.open();
    return static_cast<std::int64_t>(SampleOrder(opened, 0).classes().size());
  } catch (const std::exception&) {
    return 0;
  }
}

}  // namespace millrace

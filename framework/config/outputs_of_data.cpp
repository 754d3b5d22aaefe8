#include "config/outputs_of_data.h"

#include <algorithm>
#include <memory>

#include "graph/order.h"
#include "millrace/error.h"
#include "millrace/source.h"
#include "millrace/stage.h"

namespace millrace {

namespace {

// What a source warns of is said when the run lists its data.
class Silence : public RunServices {
 public:
  void report(const StepReport&) override {}
  void scalar(std::string_view, std::uint64_t, std::string_view, double) override {}
  void promise_scalar(std::string_view, std::uint64_t, std::string_view) override {}
  void not_finite(std::string_view, std::uint64_t, std::string_view) override {}
  void bad_sample(std::string_view, const Sample&, std::string_view) override {}
  std::string output_folder() const override { return {}; }
  void warn(std::string_view) override {}
};

}  // namespace

std::int64_t outputs_of_data(const GraphPlan& graph, const Registry& registry) {
  const auto is_source = [](const StagePlan& stage) {
    return stage.type != nullptr && stage.type->role == StageType::Role::source;
  };
  const auto source = std::ranges::find_if(graph.stages, is_source);
  if (source == graph.stages.end()) return 0;
  const Value* const numbers = source->table.find("numbers");
  if (numbers != nullptr && numbers->kind() == Value::Kind::array && !numbers->array().empty())
    return static_cast<std::int64_t>(numbers->array().size());
  Silence silence;
  StageSite site;
  site.graph = graph.name;
  site.name = source->name;
  site.run = &silence;
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

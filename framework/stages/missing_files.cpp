#include "stages/missing_files.h"

#include <fmt/format.h>

#include "millrace/error.h"
#include "millrace/source.h"
#include "millrace/util/bad_sample_budget.h"
#include "millrace/util/file_sizes.h"
#include "sampling/sample_order.h"

namespace millrace {
namespace {

// The error from reading it.
std::string fault_of(const GraphBuild& build, std::uint64_t index) {
  Sample sample;
  const std::string fault = build.data().read_sample(index, sample);
  return fault.empty() ? fmt::format("'{}' exists now", sample.place()) : fault;
}

}  // namespace

HasBadSampleBudget* budget_of(const GraphBuild& build) {
  for (const auto& instances : build.stages()) {
    Stage* const stage = instances.empty() ? nullptr : instances.front().get();
    if (auto* const budget = dynamic_cast<HasBadSampleBudget*>(stage)) return budget;
  }
  return nullptr;
}

void require_files(const GraphBuild& build) {
  const auto* const files = dynamic_cast<const KnowsFileSizes*>(build.data().source);
  const HasBadSampleBudget* const budget = budget_of(build);
  if (files == nullptr || budget == nullptr) return;
  const SampleOrder order(*build.data().source, 0);
  std::uint64_t missing = 0, first = 0;
  for (std::uint64_t at = 0; at < order.listed(); ++at) {
    if (files->is_missing(order.listed(at)) && missing++ == 0) first = order.listed(at);
  }
  if (missing <= budget->bad_sample_budget()) return;
  const std::string key = fmt::format("{}.{}.bad_sample_budget", build.plan().name, build.data().batcher->name);
  fail(ErrorKind::data,
       "{}: {} of the {} files cannot be read, more than the {} bad samples that an epoch may have; the first: {}. Restore them, "
       "remove them from the list, or allow as many: --set {}={}",
       place_of_source(build), missing, order.listed(), budget->bad_sample_budget(), fault_of(build, first), key, missing);
}

}  // namespace millrace

#include "millrace/backend/parameter_plan.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "millrace/backend/buckets.h"
#include "millrace/backend/learning_phases.h"
#include "millrace/backend/memory_planner.h"
#include "millrace/error.h"

namespace millrace {
namespace {

int optimizer_index(const OptimizerSpec& update, int parameter) {
  return update.optimizer_of.empty() ? 0 : update.optimizer_of[static_cast<std::size_t>(parameter)];
}

}  // namespace

void check_update(const OptimizerSpec& update, const Network& network) {
  std::vector<std::string> vectors;
  std::string optimizer;
  for (std::size_t i = 0; i < network.parameters.size() && !update.optimizers.empty(); ++i) {
    const Parameter& parameter = network.parameters[i];
    const Optimizer& own = *update.optimizers[static_cast<std::size_t>(optimizer_index(update, static_cast<int>(i)))];
    if (!parameter.trainable || parameter.statistic || own.scope() != OptimizerScope::matrix || parameter.shape.rank() > 1)
      continue;
    optimizer = own.name();
    vectors.push_back(parameter.name);
  }
  if (vectors.empty()) return;
  constexpr std::size_t kNamed = 4;
  const std::size_t named = std::min(vectors.size(), kNamed), others = vectors.size() - named;
  fail(ErrorKind::usage,
       "optimizer '{}' updates matrices, but '{}'{} {}; give another optimizer to all parameters that are not matrices: groups = "
       "[{{ vectors = true, type = \"adamw\" }}]",
       optimizer, fmt::join(vectors.begin(), vectors.begin() + static_cast<std::ptrdiff_t>(named), "', '"),
       others > 0 ? fmt::format(" and {} more", others) : "", vectors.size() == 1 ? "is a vector" : "are vectors");
}

MatrixShape matrix_of(const Parameter& parameter) {
  const std::int64_t rows = parameter.shape[0];
  return {rows, parameter.shape.elements() / rows};
}

void ParameterPlan::place_all(const std::vector<int>& indices) {
  for (const int index : indices) {
    offsets_[static_cast<std::size_t>(index)] = all_;
    all_ += round_up(elements(index), alignment_);
  }
}

void ParameterPlan::place(std::span<const std::size_t> elements, std::span<const std::int64_t> widths, std::size_t alignment) {
  elements_.assign(elements.begin(), elements.end());
  widths_.assign(widths.begin(), widths.end());
  alignment_ = alignment;
  offsets_.resize(elements_.size());
  const OptimizerSpec& update = options_.request.update;
  check_update(update, network_);
  const std::vector<double> until = backward_until(network_, options_.request);
  for (std::vector<int>& members : plan_buckets(network_, options_.bucket_bytes, until)) {
    const double until_epoch = until[static_cast<std::size_t>(members.front())];
    std::ranges::stable_sort(members, {}, [&](int index) { return optimizer_index(update, index); });
    const std::size_t begin = all_;
    place_all(members);
    std::vector<std::size_t> offsets;
    for (const int index : members) offsets.push_back(offset(index) - begin);
    buckets_.push_back({std::move(members), nullptr, all_ - begin, std::move(offsets), until_epoch});
  }
  trainable_ = all_;
  std::vector<int> statistics, frozen;
  for (int index = 0; index < static_cast<int>(elements_.size()); ++index) {
    if (parameter(index).statistic)
      statistics.push_back(index);
    else if (!parameter(index).trainable)
      frozen.push_back(index);
  }
  place_all(statistics);
  blended_ = all_;
  place_all(frozen);
}

}  // namespace millrace

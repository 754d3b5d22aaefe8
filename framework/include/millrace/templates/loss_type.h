// Makes a LossType from a loss's class. Included by loss.h.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "millrace/detail/types.h"
#include "millrace/error.h"
#include "millrace/kernels/host_element.h"
#include "millrace/kernels/loss_elements.h"
#include "millrace/loss.h"
#include "millrace/templates/make_from_table.h"

namespace millrace {

// A loss's description of itself.
struct LossInfo {
  std::string name, text;
  LossTarget target = LossTarget::labels;
  std::optional<Range> numbers;  // range of a sample's numbers; empty: any
  std::string applies;           // the layer that the loss itself applies to the output; "": none
  std::vector<std::string> sums = {"loss", "weight"};
  std::vector<LossFigure> figures;  // `loss` first
  // For LossTarget::classes: predicted() is written. Counts of places by (class, predicted class) follow the sums.
  bool class_matrix = false;
  // For LossTarget::labels: predicted() is written. ClassTotals, by (kind, class), follow the sums.
  bool class_totals = false;
  const Kernel *sum_places = nullptr, *join_sums = nullptr, *count_pairs = nullptr, *add_classes = nullptr;  // loss_elements.h
};

bool fits(const LossFigure& figure, const Shape& output);  // `output`: of the network, for one sample

struct LossMaker {
  template <class L>
  static LossType make() {
    using Params = typename L::Params;
    auto description = std::make_shared<LossDescription<Params>>();
    L::describe(*description);
    LossInfo& info = *description->info_;
    info.figures.insert(info.figures.begin(),
                        {.name = "loss", .text = "the minimised value, averaged by weight", .finish = loss_of});
    info.sum_places = &group_kernel<SumPlaces>;
    info.join_sums = &group_kernel<JoinSums>;
    info.count_pairs = &group_kernel<CountPairs>;
    info.add_classes = &group_kernel<AddClasses>;
    LossType type{
        detail::description_of(info.name, info.text, description->params), description->info_, description->examples_, {}};
    type.create = [description](const Value& table, const std::string& owner,
                                Diagnostics& errors) -> std::shared_ptr<const Loss> {
      return detail::make_from_table(description->params, table, owner, errors, [&](const Params& params) {
        const std::shared_ptr<L> loss = detail::constructed<L>(params);
        static_cast<Loss&>(*loss).info_ = description->info_;
        return loss;
      });
    };
    return type;
  }

 private:
  static double loss_of(std::span<const double> sums) { return quotient(sums[kLoss], sums[kWeight]); }
};

template <class L>
LossType loss_type() {
  return LossMaker::make<L>();
}

}  // namespace millrace

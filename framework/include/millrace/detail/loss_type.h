// How a loss's class becomes a LossType. Included by loss.h.
#pragma once

#include <type_traits>
#include <utility>

#include "millrace/detail/types.h"
#include "millrace/error.h"
#include "millrace/kernels/host_element.h"
#include "millrace/kernels/loss_elements.h"
#include "millrace/loss.h"

namespace millrace {

struct LossMaker {
  template <class L>
  static LossType make() {
    using Params = typename L::Params;
    auto description = std::make_shared<LossDescription<Params>>();
    L::describe(*description);
    LossInfo& info = description->info_;
    info.figures.insert(info.figures.begin(), {.name = "loss", .text = "what is minimised, by weight", .finish = loss_of});
    info.sum_places = &group_kernel<SumPlaces>;
    info.join_sums = &group_kernel<JoinSums>;
    info.count_pairs = &group_kernel<CountPairs>;
    LossType type{detail::description_of(info.name, info.text, description->params),
                  std::shared_ptr<const LossInfo>(description, &info),
                  description->examples_,
                  {}};
    type.create = [description](const Value& table, const std::string& owner,
                                Diagnostics& errors) -> std::shared_ptr<const Loss> {
      return detail::make_from_table(description->params, table, owner, errors, [&](const Params& params) {
        const std::shared_ptr<L> loss = detail::constructed<L>(params);
        static_cast<Loss&>(*loss).info_ = std::shared_ptr<const LossInfo>(description, &description->info_);
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

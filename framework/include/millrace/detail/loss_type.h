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
    const Params defaults{};
    LossType type;
    type.name = info.name;
    type.text = info.text;
    type.info = std::shared_ptr<const LossInfo>(description, &info);
    type.examples = description->examples_;
    type.params = description->params.infos();
    type.defaults = write_params(type.params, &defaults);
    type.create = [description](const Value& table, const std::string& owner,
                                Diagnostics& errors) -> std::shared_ptr<const Loss> {
      const std::size_t before = errors.size();
      const Params params = read_struct(description->params, table, owner, errors);
      if (errors.size() != before) return nullptr;
      try {
        std::shared_ptr<L> loss;
        if constexpr (std::is_constructible_v<L, const Params&>)
          loss = std::make_shared<L>(params);
        else
          loss = std::make_shared<L>();
        static_cast<Loss&>(*loss).info_ = std::shared_ptr<const LossInfo>(description, &description->info_);
        return loss;
      } catch (const Error& error) {
        errors.add(table.at(), owner + ": " + error.message());
        return nullptr;
      }
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

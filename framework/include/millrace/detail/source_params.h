// Keys of every source. Part of source.h.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "millrace/params.h"

namespace millrace {

// Selects samples and their order. The framework applies these by index.
struct SourceParams {
  std::string shuffle = "never";
  std::optional<std::int64_t> limit;
  Range part = {0, 1};
  std::int64_t part_seed = 0;
  std::vector<std::string> only;
  bool balance = false;
  std::vector<double> class_weights;

  template <class Params>
  static void describe(ParamSet<Params>& set) {
    set.add("shuffle", &Params::shuffle)
        .choices({"never", "once", "every-epoch"})
        .text("sample order: as listed, one fixed permutation, or a new one each epoch");
    set.add("limit", &Params::limit).range(1).unit("samples").text("maximum number, spread evenly over the listing");
    set.add("part", &Params::part)
        .text("part of each class to use: [0, 0.9] and [0.9, 1] in another graph share no sample; part_seed draws the division");
    set.add("part_seed", &Params::part_seed)
        .text("draws the division into parts; independent of run.seed to keep test sets fixed");
    set.add("only", &Params::only).text("use only these classes; labels are numbered in this order");
    set.add("balance", &Params::balance).text("draw every class equally often; the epoch keeps its length");
    set.add("class_weights", &Params::class_weights).text("relative frequency of each class in an epoch; instead of balance");
  }
};

}  // namespace millrace

// Memory of a sum over a map's rows in an executable's arena, and whether its last block finishes it.
#pragma once

#include <algorithm>

#include "operation.h"

namespace millrace::cuda {

struct SumsPlan {
  TensorId partial = kNoTensor, groups = kNoTensor;
  explicit operator bool() const { return partial != kNoTensor; }

  // Alive at the current time. kSums sums per channel.
  static SumsPlan of(Planner& planner, CompileContext& compile_context, const MapSpec& map, int sums) {
    SumsPlan plan{planner.tensor(partial_bytes(map.rows(), map.row_packs(), sums))};
    if (!compile_context.shortcuts.last_block) return plan;
    plan.groups = planner.tensor(group_bytes(map.rows(), map.row_packs(), sums));
    compile_context.ticket_bytes = std::max(compile_context.ticket_bytes, ticket_bytes(map.row_packs()));
    return plan;
  }
};

struct SumsMemory {
  float* partial = nullptr;
  double* groups = nullptr;
  explicit operator bool() const { return partial != nullptr; }

  static SumsMemory of(const SumsPlan& plan, const Binding& binding) {
    return {binding.at<float>(plan.partial), binding.at<double>(plan.groups)};
  }

  // Runs a kernel of Form::sums and its finish, in one launch or in two.
  template <class Sums, class Finish>
  void run(Queue& queue, const CompileContext& compile_context, Sums sums, const Finish& finish) const {
    sums.partial = partial;
    if (groups != nullptr) {
      sums.last = {compile_context.tickets, groups};
      sums.finish = finish;
    }
    queue.run(sums);
    if (groups == nullptr) queue.run(finish);
  }
};

}  // namespace millrace::cuda

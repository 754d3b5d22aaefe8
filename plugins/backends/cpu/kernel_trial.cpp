#include "kernel_trial.h"

#include <fmt/format.h>
#include <omp.h>

#include <algorithm>

#include "guarded_memory.h"

namespace millrace::cpu {
namespace {

constexpr std::int64_t kParts = 4;  // per thread: rows differ in cost

// Calls work(begin, end) for parts of the rows on the team, and returns the results in order.
template <class Work>
auto share_rows(std::int64_t rows, const Work& work) {
  const std::int64_t parts = std::min(rows, kParts * omp_get_max_threads());
  std::vector<decltype(work(0, 0))> results(static_cast<std::size_t>(parts));
#pragma omp parallel for schedule(dynamic)
  for (std::int64_t part = 0; part < parts; ++part) {
    results[static_cast<std::size_t>(part)] = work(rows * part / parts, rows * (part + 1) / parts);
  }
  return results;
}

std::string to_text(const WindowDifference& found, const char* what) {
  if (found.wrong == 0) return {};
  return fmt::format("{} of {} {} are wrong: {}", found.wrong, found.of, what, found.first);
}

const TrialOperand& operand_of(const Trial& trial, WindowOperand which) {
  return which == WindowOperand::x ? trial.x : which == WindowOperand::w ? trial.w : trial.y;
}

}  // namespace

// Memory limit of a trial outside the plan.
constexpr std::size_t kMostOfTrial = std::size_t{1} << 30;

Fault find_fault(const Trial& trial, MemoryRegion& scratch, const std::function<void(const TrialMemory&)>& kernel) {
  const auto channels = static_cast<std::size_t>(trial.shape.groups * trial.shape.k);
  if (trial.x.bytes + trial.w.bytes + trial.y.bytes + trial.scratch > kMostOfTrial) return {};
  const GuardedMemory guarded(scratch, {{"input", trial.x.bytes},
                                        {"weights", trial.w.bytes},
                                        {"output", trial.y.bytes},
                                        {"bias", trial.bias ? channels * sizeof(float) : 0},
                                        {"scratch memory", trial.scratch}});
  const TrialMemory memory{guarded.at(0), guarded.at(1), guarded.at(2), trial.bias ? static_cast<float*>(guarded.at(3)) : nullptr,
                           guarded.at(4)};
  const WindowCheck check(trial.shape, trial.result);
  const auto at = [&](WindowOperand which) {
    return which == WindowOperand::x ? memory.x : which == WindowOperand::w ? memory.w : memory.y;
  };
  for (const WindowOperand which : {WindowOperand::x, WindowOperand::w, WindowOperand::y}) {
    if (which == trial.result) continue;
    const ElementOffsets& elements = operand_of(trial, which).elements;
    share_rows(check.rows(elements), [&](std::int64_t begin, std::int64_t end) {
      check.fill(which, elements, at(which), begin, end);
      return 0;
    });
  }
  const bool adds_bias = trial.bias && trial.result == WindowOperand::y;
  const std::vector<float> bias = window_biases(adds_bias ? channels : 0);
  std::copy(bias.begin(), bias.end(), memory.bias);

  kernel(memory);

  if (std::string damage = guarded.damage(); !damage.empty()) return damage;
  const WindowRounding rounding{.relu = trial.relu, .bias = adds_bias ? &bias : nullptr, .of_term = trial.rounding};
  const ElementOffsets& elements = operand_of(trial, trial.result).elements;
  const auto compare = [&](std::int64_t begin, std::int64_t end) {
    return check.compare(elements, at(trial.result), begin, end, rounding);
  };
  WindowDifference found;
  for (WindowDifference& part : share_rows(check.rows(elements), compare)) merge(found, std::move(part));
  if (Fault fault = to_text(found, "results"); !fault.empty()) return fault;
  if (!trial.bias || adds_bias) return {};
  return to_text(check.compare_bias(memory.bias, trial.rounding), "gradients of the bias");
}

}  // namespace millrace::cpu

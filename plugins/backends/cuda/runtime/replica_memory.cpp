// What a replica says of itself: what it holds on its device, what to do when that is more than there is, its engines.
#include <fmt/format.h>

#include <algorithm>

#include "replica.h"

namespace millrace::cuda {

MemoryPlan GpuReplica::memory_plan() const {
  MemoryPlan plan;
  parameters_.append_to(plan);
  const TargetNeeds targets = TargetNeeds::of(network_, options_.request.losses);
  plan.items.push_back({"activations, their gradients and workspaces", executables_.arena_bytes()});
  plan.items.push_back({"batches on their way to the device", Staging::device_bytes(most_samples_, network_.input, targets)});
  for (const ResidentSet& set : options_.resident_sets) plan.items.push_back(ResidentImages::plan(set));
  plan.items.push_back({"losses and their targets", summed_logit_bytes(options_.request.sums_views) + losses_.device_bytes()});
  for (MemoryPlan::Item& item : plan.items) item.on_device = true;
  return plan;
}

std::size_t GpuReplica::summed_logit_bytes(bool of_maps) const {
  const MapSpec spec = MapSpec::of(network_.output(), most_samples_, DataType::f32);
  return of_maps || spec.height * spec.width == 1 ? spec.bytes() : 0;
}

Map GpuReplica::begin_sum(const Map& output) {
  Map sum = output;
  sum.spec.type = DataType::f32;
  if (summed_logits_.bytes() < sum.spec.bytes()) {  // nobody has said that there would be views
    summed_logits_ = DeviceMemory(*machine_, summed_logit_bytes(true), "logits of several views");
  }
  sum.data = summed_logits_.data();
  return sum;
}

std::string GpuReplica::engines() const {
  std::string text;
  for (const bool training : {true, false}) {
    if (const Executable* full = executables_.full(training)) text += full->describe();
  }
  return text;
}

std::string GpuReplica::memory_advice(const MemoryPlan& plan, std::size_t free) const {
  const auto mebibytes = [](std::size_t bytes) { return fmt::format("{:.1f} MiB", static_cast<double>(bytes) / (1 << 20)); };
  const TargetNeeds targets = TargetNeeds::of(network_, options_.request.losses);
  const std::size_t by_samples =
      executables_.arena_bytes() + Staging::device_bytes(most_samples_, network_.input, targets);  // nearly all that is
  const std::size_t fixed = plan.total() - by_samples, total = machine_->info().memory;
  const double share = static_cast<double>(free - std::min(free, fixed)) / static_cast<double>(by_samples);
  const auto fits = static_cast<std::uint32_t>(share * most_samples_);
  return fmt::format("For batches of {}, {} are planned; of the {} there, {} are used and {} free: {}", most_samples_,
                     mebibytes(plan.total()), mebibytes(total), mebibytes(total - std::min(free, total)), mebibytes(free),
                     fits > 0 ? fmt::format("batches of about {} fit", fits) : "not even a batch of one fits");
}

}  // namespace millrace::cuda

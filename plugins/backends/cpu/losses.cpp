#include "losses.h"

#include <algorithm>

#include "kernels/run_kernel.h"
#include "map_spec.h"

namespace millrace::cpu {

void LossInputs::take(const Batch& batch, std::uint32_t begin, std::uint32_t count, const PixelTable& table) {
  const std::uint32_t end = begin + count;
  weights_.assign(batch.weights + begin, batch.weights + end);
  labels_.assign(batch.labels + begin, batch.labels + end);
  shares_.assign(count, 1.0F);
  second_labels_ = labels_;
  if (batch.shares != nullptr) {
    shares_.assign(batch.shares + begin, batch.shares + end);
    second_labels_.assign(batch.second_labels + begin, batch.second_labels + end);
  }
  classes_ = batch.target.kind == TargetSpec::Kind::classes;
  targets_.clear();
  if (batch.target.kind != TargetSpec::Kind::none) return take_target_images(batch, begin, count, table);
  pixels_ = 1;
  channels_ = batch.numbers_for_loss();
  if (channels_ > 0) targets_.assign(batch.numbers + begin * channels_, batch.numbers + end * channels_);
}

void LossInputs::take_target_images(const Batch& batch, std::uint32_t begin, std::uint32_t count, const PixelTable& table) {
  const ImageShape stored = batch.target.shape(batch.image), window = batch.target.shape(batch.window);
  const int channels = window.channels;
  const std::size_t each = window.bytes();
  pixels_ = std::int64_t{window.height} * window.width;
  channels_ = channels;
  targets_.resize(count * each);
#pragma omp parallel
  {
    std::vector<std::uint8_t> seen(each);
#pragma omp for schedule(static)
    for (std::uint32_t n = 0; n < count; ++n) {
      const std::uint32_t slot = begin + n;
      apply_record(target_record(batch.records[slot], batch.target), {batch.targets + slot * stored.bytes(), stored}, window,
                   seen.data());
      float* const to = targets_.data() + n * each;
      for (std::size_t i = 0; i < each; ++i) {
        const float as_class = seen[i] == batch.target.ignored ? -1.0F : static_cast<float>(seen[i]);
        to[i] = classes_ ? as_class : table.channel(static_cast<std::int64_t>(i) % channels)[seen[i]];
      }
    }
  }
}

void LossInputs::append_to(LossTensors& tensors) const {
  tensors.weights = weights_.data();
  tensors.labels = labels_.data();
  tensors.second_labels = second_labels_.data();
  tensors.shares = shares_.data();
  if (!targets_.empty()) tensors.target = target_view(targets_.data(), pixels_, channels_, classes_);
}

std::size_t LossInputs::bytes(const Network& network, std::span<const LossAt> losses, std::uint32_t samples) {
  std::size_t target = 0;
  const auto take = [&](const Shape& output) {
    if (output.rank() == 3) target = std::max({target, network.input.bytes(), static_cast<std::size_t>(output.elements())});
  };
  take(network.output());
  for (const LossAt& loss : losses) take(network.shape_of(loss.output.value_or(network.result())));
  return samples * (4 + target) * sizeof(float);
}

StepSums Losses::run(const LossAt& loss, const At& at, const LossInputs& inputs, std::int64_t samples, double divisor) {
  const LossPlan& plan = plans_.of(loss);
  StepSums result{std::vector<double>(plan.sums(), 0.0)};
  if (samples == 0) return result;
  if (const std::size_t needed = plan.workspace(samples); needed > workspace_.bytes()) workspace_ = MemoryRegion(needed);
  LossTensors tensors;
  tensors.samples = samples;
  tensors.output = view_of(at.output);
  if (at.d_output != nullptr) tensors.d_output = view_of(*at.d_output);
  tensors.d_output.add = at.add;
  tensors.constants = plan.constants().data();
  tensors.divisor = divisor;
  inputs.append_to(tensors);
  plan.run(tensors, workspace_.as<std::byte>(), run_kernel);
  const auto* const sums = workspace_.as<const double>();
  std::copy_n(sums, plan.sums(), result.values.begin());
  return result;
}

}  // namespace millrace::cpu

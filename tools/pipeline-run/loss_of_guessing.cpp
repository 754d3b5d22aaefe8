#include "loss_of_guessing.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "millrace/backend/loss_plan.h"

namespace millrace {
namespace {

constexpr std::int64_t kMaxImages = 1000;  // with more classes only the first ones have an image

}  // namespace

std::optional<double> loss_of_guessing(const std::shared_ptr<const Loss>& loss, std::int64_t classes) {
  const LossTarget target = loss->info().target;
  if (target == LossTarget::values) return std::nullopt;
  const bool pixels = target == LossTarget::classes;  // one image, with a pixel of each class
  const LossPlan plan(loss, pixels ? Shape{classes, 1, classes} : Shape{classes});
  const std::int64_t places = pixels ? classes : std::min(classes, kMaxImages);
  std::vector<float> outputs(static_cast<std::size_t>(places * classes));  // (places, classes)
  std::vector<float> labels(static_cast<std::size_t>(places)), ones(labels.size(), 1.0F);
  std::iota(labels.begin(), labels.end(), 0.0F);

  LossTensors tensors;
  tensors.samples = pixels ? 1 : places;
  tensors.output.data = outputs.data();
  tensors.output.stride_n = pixels ? places * classes : classes;
  tensors.output.stride_pixel = tensors.output.padded = classes;
  tensors.weights = tensors.shares = ones.data();
  tensors.labels = tensors.second_labels = labels.data();
  tensors.target.data = labels.data();
  tensors.target.by_channel = false;
  tensors.target.stride_n = places;
  tensors.target.stride_pixel = tensors.target.padded = 1;
  tensors.constants = plan.constants().data();
  std::vector<double> workspace(plan.workspace(tensors.samples) / sizeof(double) + 1);
  plan.run(tensors, reinterpret_cast<std::byte*>(workspace.data()),
           [](const Kernel& kernel, const void* element) { kernel.run_on_host(element, 0, kernel.units(element)); });
  const double guess = quotient(workspace[kLoss], workspace[kWeight]);
  return std::isfinite(guess) && guess > 0 ? std::optional(guess) : std::nullopt;
}

}  // namespace millrace

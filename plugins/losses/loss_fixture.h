// A loss on the processor, with given outputs and targets.
#pragma once

#include <cmath>
#include <random>
#include <vector>

#include "millrace/backend/loss_plan.h"
#include "testkit/harness.h"
#include "testkit/losses.h"

namespace millrace::losses {

inline std::vector<float> random_values(std::size_t count, unsigned seed, float mean = 0, float deviation = 1) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> values(mean, deviation);
  std::vector<float> made(count);
  for (float& value : made) value = values(generator);
  return made;
}

// A loss's table with one list of numbers.
inline Value list_table(const char* key, const std::vector<double>& numbers) {
  Array list;
  for (const double number : numbers) list.emplace_back(number);
  return testkit::table({{key, Value(list)}});
}

// Outputs are (samples, pixels, channels); `shape` is (C) or (C, H, W).
struct LossTrial {
  LossTrial(std::shared_ptr<const Loss> the_loss, const Shape& output, std::int64_t count)
      : loss(std::move(the_loss)),
        shape(output),
        samples(count),
        pixels(output.elements() / output[0]),
        outputs(random_values(size(samples * output.elements()), 1, 0, 2)),
        weights(size(count), 1.0F),
        labels(size(count), 0.0F),
        seconds(size(count), 0.0F),
        shares(size(count), 1.0F) {
    const bool classes = loss->info().target == LossTarget::classes;
    targets = random_values(size(samples * (classes ? pixels : output.elements())), 2);
    std::mt19937 generator(3);
    std::uniform_int_distribution<int> any(0, static_cast<int>(output[0]) - 1);
    for (std::size_t i = 0; i < labels.size(); ++i) {
      labels[i] = static_cast<float>(any(generator));
      seconds[i] = static_cast<float>(any(generator));
    }
    if (!classes) return;
    for (std::size_t i = 0; i < targets.size(); ++i) targets[i] = i % 7 == 0 ? -1.0F : static_cast<float>(any(generator));
  }

  // Returns the sums and writes `gradient`. If `apart`, units of work run one by one, like on threads.
  std::vector<double> run(bool apart = false) {
    const LossPlan plan(loss, shape);
    gradient.assign(outputs.size(), 7.0F);
    LossTensors tensors;
    tensors.samples = samples;
    tensors.output = map(outputs.data());
    if (wants_gradient) tensors.d_output = map(gradient.data());
    tensors.weights = weights.data();
    tensors.labels = labels.data();
    tensors.second_labels = seconds.data();
    tensors.shares = shares.data();
    tensors.target = map(targets.data());
    if (loss->info().target == LossTarget::classes) {
      tensors.target.by_channel = false;
      tensors.target.stride_n = pixels;
      tensors.target.stride_pixel = tensors.target.padded = 1;
    }
    tensors.constants = plan.constants().data();
    tensors.divisor = divisor;
    std::vector<double> workspace(plan.workspace(samples) / sizeof(double) + 1, -1.0);
    plan.run(tensors, reinterpret_cast<std::byte*>(workspace.data()), [&](const Kernel& kernel, const void* element) {
      const std::int64_t units = kernel.units(element);
      if (!apart) return kernel.run_on_host(element, 0, units);
      for (std::int64_t unit = units; unit-- > 0;) kernel.run_on_host(element, unit, unit + 1);
    });
    return {workspace.begin(), workspace.begin() + static_cast<std::ptrdiff_t>(plan.sums())};
  }

  // The largest difference between the gradient and difference quotients of the loss, relative to the largest gradient.
  double gradient_error() {
    run();
    const std::vector<float> written = gradient;
    double worst = 0, largest = 0;
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      const float value = outputs[i];
      constexpr float kStep = 1.0F / 128;
      outputs[i] = value + kStep;
      const double above = run()[kLoss];
      outputs[i] = value - kStep;
      const double below = run()[kLoss];
      outputs[i] = value;
      const double slope = (above - below) / (2 * static_cast<double>(kStep)) / divisor;
      worst = std::max(worst, std::abs(slope - static_cast<double>(written[i])));
      largest = std::max(largest, std::abs(slope));
    }
    return worst / largest;
  }

  static std::size_t size(std::int64_t count) { return static_cast<std::size_t>(count); }
  TensorView map(float* values) const {
    TensorView view;
    view.data = values;
    view.stride_n = pixels * shape[0];
    view.stride_pixel = view.padded = shape[0];
    return view;
  }

  const std::shared_ptr<const Loss> loss;
  const Shape shape;
  const std::int64_t samples, pixels;
  std::vector<float> outputs, weights, labels, seconds, shares, targets, gradient;
  double divisor = 1;
  bool wants_gradient = true;
};

}  // namespace millrace::losses

// Predictions of three classes, for tests of write_evaluation.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "testkit/predictions.h"
#include "write_evaluation.h"

namespace millrace {

class WriteEvaluationTest : public testkit::PredictionsTest {
 protected:
  WriteEvaluationTest() : PredictionsTest({2, 2, 1}, Shape{3}) { context_.classes = {"cat", "dog", "owl"}; }

  // Samples with these labels and outputs. Image i of a share has the grey level 10 * (i + 1).
  Ref<Predictions> judged_by(const std::vector<std::int32_t>& labels, const std::vector<std::vector<float>>& outputs) {
    Ref<Predictions> made = share(outputs);
    made->batch = testkit::make_batch(made->count, context_.window);
    const std::size_t bytes = context_.window.bytes();
    for (std::size_t i = 0; i < labels.size(); ++i) {
      made->samples[i].label = labels[i];
      std::fill_n(made->batch->change_pixels() + i * bytes, bytes, static_cast<std::uint8_t>(10 * (i + 1)));
    }
    return made;
  }
  // Samples with these labels whose outputs predict these classes; the predicted class has half of all probability.
  Ref<Predictions> judged(const std::vector<std::int32_t>& labels, const std::vector<std::size_t>& predicted) {
    std::vector<std::vector<float>> outputs(labels.size(), std::vector<float>(3));
    for (std::size_t i = 0; i < labels.size(); ++i) outputs[i][predicted[i]] = std::log(2.0F);
    return judged_by(labels, outputs);
  }
};

}  // namespace millrace

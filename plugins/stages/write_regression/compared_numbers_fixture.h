// Predicted and true numbers, for tests of the stages that compare them.
#pragma once

#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "testkit/predictions.h"

namespace millrace {

class ComparedNumbersTest : public testkit::PredictionsTest {
 protected:
  explicit ComparedNumbersTest(std::int64_t numbers) : PredictionsTest({2, 2, 1}, Shape{numbers}) {}

  Ref<Predictions> predicted(const std::vector<std::vector<float>>& outputs, std::vector<float> targets) {
    Ref<Predictions> made = share(outputs);
    made->batch = testkit::make_batch(made->count, context_.window);
    made->batch->numbers_per_sample = static_cast<std::uint32_t>(targets.size() / outputs.size());
    made->batch->numbers = targets_.emplace_back(std::move(targets)).data();
    return made;
  }

  static std::pair<const char*, Value> columns(const std::vector<std::string>& names) {
    return {"columns", Value(Array(names.begin(), names.end()))};
  }

  std::deque<std::vector<float>> targets_;
};

}  // namespace millrace

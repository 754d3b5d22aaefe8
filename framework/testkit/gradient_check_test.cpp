#include "testkit/gradient_check.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "millrace/loss.h"
#include "testkit/harness.h"

namespace millrace::testkit {
namespace {

// Fits label = w . pixels + b by least squares: the smallest network with a gradient. `defect` corrupts one gradient.
class LeastSquares : public Replica {
 public:
  explicit LeastSquares(double defect) : defect_(defect) {}
  MemoryPlan memory_plan() const override { return {}; }
  void start() override {}
  const std::vector<Bucket>& buckets() const override { return buckets_; }
  void ingest(Ref<Batch> batch, std::uint32_t, std::uint32_t) override { batch_ = std::move(batch); }
  void forward(std::uint64_t) override {}

  Ref<Event> losses(std::span<const LossTerm> terms) override {
    StepSums& sums = *terms.front().sums;
    const double divisor = terms.front().divisor;
    sums.values = {0, batch_->weight};
    gradient_[0].assign(kInputs, 0);
    gradient_[1].assign(1, 0);
    for (std::uint32_t i = 0; i < batch_->count; ++i) {
      const std::uint8_t* x = batch_->pixels + i * kInputs;
      double error = static_cast<double>(value_[1][0] - static_cast<float>(batch_->labels[i]));
      for (std::size_t k = 0; k < kInputs; ++k) error += static_cast<double>(value_[0][k]) * x[k] / 255;
      sums.values[0] += 0.5 * error * error;
      for (std::size_t k = 0; k < kInputs; ++k) gradient_[0][k] += static_cast<float>(error * x[k] / 255 / divisor);
      gradient_[1][0] += static_cast<float>(error / divisor);
    }
    gradient_[1][0] *= static_cast<float>(1 + defect_);
    return {};
  }
  void backward(BucketReady) override {}
  Ref<Event> update(int, const UpdateStep&, const Ref<Event>&) override { return {}; }
  void keep_gradients() override {}
  Ref<Event> lerp_into(std::string_view, double, bool) override { return {}; }
  Ref<Event> swap_with(std::string_view) override { return {}; }
  Ref<Event> infer(Ref<Batch>, std::uint32_t, std::uint32_t, std::span<const View>, const std::shared_ptr<const Loss>&,
                   StepSums&) override {
    return {};
  }
  Ref<Event> read_outputs(std::span<const OutputCopy>) override { return {}; }
  std::vector<float> logits() override { return {}; }
  std::vector<std::string> states() const override { return {std::string(kValue), std::string(kGradient)}; }
  std::optional<Shape> state_shape(std::string_view state, int p) const override {
    if (state != kValue && state != kGradient) return std::nullopt;
    return Shape{static_cast<std::int64_t>(value_[static_cast<std::size_t>(p)].size())};
  }
  std::vector<float> read(std::string_view state, int parameter) override {
    return (state == kGradient ? gradient_ : value_)[static_cast<std::size_t>(parameter)];
  }
  void write(std::string_view, int parameter, std::span<const float> values) override {
    value_[static_cast<std::size_t>(parameter)].assign(values.begin(), values.end());
  }
  void finish() override {}

  static constexpr std::size_t kInputs = 12;

 private:
  double defect_;
  std::vector<Bucket> buckets_;
  Ref<Batch> batch_;
  std::vector<float> value_[2] = {std::vector<float>(kInputs), std::vector<float>(1)}, gradient_[2];
};

class Unused : public Loss {
 public:
  void compute(LossPass&) const override {}
};

GradientReport check(double defect) {
  Network network;
  network.layers.emplace_back().output = {1};
  network.parameters = {{"weight", {1, 12}, {"fan_in_uniform"}}, {"bias", {1}, {"constant"}}};
  LeastSquares replica(defect);
  randomise(network, replica, 1);
  const Ref<Batch> batch = make_batch(5, {2, 2, 3});
  fill_at_random(*batch, 3, 2);
  return check_gradients(network, replica, batch, {.loss = std::make_shared<Unused>()});
}

TEST(GradientCheck, AcceptsARightGradient) {
  const GradientReport report = check(0);
  ASSERT_EQ(report.entries.size(), 2U);
  EXPECT_LT(report.worst(), 1e-3) << report.text();
}

TEST(GradientCheck, FindsAGradientThatIsTwoPercentOff) {
  const GradientReport report = check(0.02);
  EXPECT_GT(report.worst(), 1e-2) << report.text();
  EXPECT_EQ(report.text().find("bias"), 0U) << report.text();
}

TEST(GradientCheck, SaysItInTenLines) {
  GradientReport report;
  for (int i = 0; i < 10; ++i) report.entries.push_back({"p" + std::to_string(i), 0.1 * i, 1, 1e-6});
  std::string text = report.text();
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 10) << text;
  for (int i = 10; i < 40; ++i) report.entries.push_back({"p" + std::to_string(i), 0.1 * i, 1, 1e-6});
  text = report.text();
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 10) << text;
  EXPECT_EQ(text.find("p39: relative error"), 0U) << text;
  EXPECT_NE(text.find("\nand 31 parameters more, with smaller errors\n"), std::string::npos) << text;
}

TEST(GradientCheck, FindsAGradientThatIsMissing) { EXPECT_GT(check(-1).worst(), 0.9); }

}  // namespace
}  // namespace millrace::testkit

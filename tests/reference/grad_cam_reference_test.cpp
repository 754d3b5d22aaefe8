// Gradients of scores in inference compared with PyTorch's, and that computing them has no side effects. README.md,
// grad_cam.json.
#include <gtest/gtest.h>

#include <algorithm>

#include "millrace/backend/backend.h"
#include "millrace/backend/network.h"
#include "reference_fixture.h"
#include "testkit/networks.h"

namespace millrace::reference {
namespace {

constexpr double kGradientBound = 1e-5;  // float32, for any order of sums; rounding changes no decision (closest_tie)

class ScoreGradients : public testing::Test {
 protected:
  ScoreGradients()
      : file_(read_reference("grad_cam.json")),
        samples_(file_["samples"].get<std::uint32_t>()),
        network_(testkit::network_from_text(file_["network"].get<std::string>(), with_simulation())),
        batch_(testkit::make_batch(samples_, network_->input)) {
    const std::size_t each = network_->input.bytes();
    std::uint8_t* const pixels = batch_->change_pixels();
    for (std::size_t n = 0; n < samples_; ++n) {
      for (std::size_t i = 0; i < each; ++i) pixels[n * each + i] = static_cast<std::uint8_t>(37 * i + 101 * n + 13 * (i / 7));
      batch_->labels[n] = file_["labels"][n].get<std::int32_t>();
    }
    for (const Json& tested : file_["cases"]) gradients_.push_back(gradient_of(tested));
  }

  ScoreGradient gradient_of(const Json& tested) const {
    const auto of_name = [&](const Layer& layer) { return layer.name == tested["by"].get<std::string>(); };
    const auto found = std::find_if(network_->layers.begin(), network_->layers.end(), of_name);
    return {static_cast<int>(found - network_->layers.begin()), tested["of"].get<int>()};
  }

  CompiledNetwork compiled(CompileOptions options = {}) const {
    CompiledNetwork made;
    made.backend = with_simulation().backends().find("cpu")->create();
    made.device = made.backend->open(0, {});
    options.infer_batch = samples_;
    options.request.gradients = gradients_;
    made.replica = made.device->compile(*network_, options);
    made.replica->start();
    for (std::size_t p = 0; p < network_->parameters.size(); ++p) {
      made.replica->write(kValue, static_cast<int>(p), tensor_of(file_["tensors"].at(network_->parameters[p].name)));
    }
    return made;
  }

  // All requested gradients, for the first samples.
  std::vector<std::vector<float>> read(CompiledNetwork& made, std::uint32_t count) const {
    std::vector<std::shared_ptr<std::uint8_t[]>> memory;
    std::vector<GradientCopy> copies;
    std::vector<std::size_t> sizes;
    for (const ScoreGradient& gradient : gradients_) {
      sizes.push_back(count * static_cast<std::size_t>(network_->shape_of(gradient.by).elements()));
      memory.push_back(made.device->host_buffer(sizes.back() * sizeof(float)));
      copies.push_back({gradient, reinterpret_cast<float*>(memory.back().get())});
    }
    made.replica->read_gradients(batch_, 0, count, copies)->wait();
    made.replica->finish();
    std::vector<std::vector<float>> values;
    for (std::size_t i = 0; i < sizes.size(); ++i) values.emplace_back(copies[i].host, copies[i].host + sizes[i]);
    return values;
  }

  const Json file_;
  const std::uint32_t samples_;
  const std::shared_ptr<const Network> network_;
  const Ref<Batch> batch_;
  std::vector<ScoreGradient> gradients_;
};

TEST_F(ScoreGradients, AreThoseOfPyTorch) {
  for (const bool trains : {false, true}) {
    for (const bool recompute : {false, true}) {
      CompileOptions options;
      options.train_batch = trains ? samples_ : 0;
      options.recompute = recompute;
      CompiledNetwork made = compiled(options);
      const auto found = read(made, samples_);
      for (std::size_t i = 0; i < found.size(); ++i) {
        const Json& tested = file_["cases"][i];
        EXPECT_LT(reference_error(found[i], tested["gradient"]), kGradientBound)
            << "by " << tested["by"] << ", of " << tested["of"] << ", " << trains << recompute;
      }
    }
  }
}

TEST_F(ScoreGradients, OfFewerSamplesAreTheSame) {
  CompiledNetwork made = compiled();
  const auto all = read(made, samples_), some = read(made, samples_ - 1);
  for (std::size_t i = 0; i < all.size(); ++i) {
    ASSERT_EQ(some[i].size() * samples_, all[i].size() * (samples_ - 1));
    for (std::size_t k = 0; k < some[i].size(); ++k) EXPECT_NEAR(some[i][k], all[i][k], 1e-5) << file_["cases"][i]["by"];
  }
  const GradientCopy nothing{gradients_[0], nullptr};
  made.replica->read_gradients(batch_, 0, 0, std::span(&nothing, 1))->wait();
  made.replica->finish();  // for a replica without a share
}

TEST_F(ScoreGradients, LeaveRunningStatisticsAndInferenceAlone) {
  CompileOptions options;
  options.train_batch = samples_;
  CompiledNetwork made = compiled(options);
  const View plain;
  StepSums sums;
  const auto logits = [&] {
    made.replica->infer(batch_, 0, samples_, std::span(&plain, 1), nullptr, sums)->wait();
    return made.replica->logits();
  };
  const std::vector<float> before = logits();
  read(made, samples_);
  EXPECT_TRUE(made.replica->logits().empty()) << "they are gone";
  EXPECT_EQ(logits(), before);
  for (std::size_t p = 0; p < network_->parameters.size(); ++p) {
    const Parameter& parameter = network_->parameters[p];
    EXPECT_EQ(made.replica->read(kValue, static_cast<int>(p)), tensor_of(file_["tensors"].at(parameter.name))) << parameter.name;
  }
}

// A label that the network lacks has no score.
TEST_F(ScoreGradients, OfALabelThatIsNotThereAreZero) {
  gradients_ = {gradient_of({{"by", "sum_relu"}, {"of", ScoreGradient::kLabel}})};
  CompiledNetwork made = compiled();
  batch_->labels[1] = -1;
  batch_->labels[2] = 5;
  const std::vector<float> found = read(made, samples_)[0];
  const std::size_t each = found.size() / samples_;
  for (std::size_t n = 0; n < samples_; ++n) {
    const bool zero = std::all_of(found.begin() + static_cast<std::ptrdiff_t>(n * each),
                                  found.begin() + static_cast<std::ptrdiff_t>((n + 1) * each), [](float v) { return v == 0; });
    EXPECT_EQ(zero, n == 1 || n == 2) << n;
  }
}

TEST_F(ScoreGradients, ThatCannotBeAreRefused) {
  const auto refusal = [&](const ScoreGradient& gradient) {
    gradients_ = {gradient};
    try {
      compiled();
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::usage);
      return error.message();
    }
    return std::string("nothing was thrown");
  };
  EXPECT_EQ(refusal({0, 5}), "the gradient of number 5 of the network's result was requested, but it has 5");
  gradients_ = {ScoreGradient{0, 1}};
  CompiledNetwork made = compiled();
  gradients_ = {ScoreGradient{1, 1}};
  EXPECT_THROW(read(made, samples_), Error) << "it was not asked for";
}

// Until it supports them.
TEST_F(ScoreGradients, OnAGpuAreRefusedByName) {
  if (with_simulation().backends().find("simulated") == nullptr) GTEST_SKIP() << "not built: simulated";
  const auto backend = with_simulation().backends().find("simulated")->create();
  const auto device = backend->open(0, {});
  CompileOptions options;
  options.infer_batch = samples_;
  options.request.gradients = gradients_;
  try {
    device->compile(*network_, options);
    FAIL() << "was compiled";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::usage);
    EXPECT_EQ(error.message(), "backend 'cuda' computes no gradients of scores in inference; 'cpu' does: run with --devices cpu");
  }
}

}  // namespace
}  // namespace millrace::reference

#include "millrace/backend/learning_phases.h"

#include <gtest/gtest.h>

namespace millrace {
namespace {

// Layers with a weight and a bias each; `inputs`: for each layer, the indices of the layers it reads.
Network network(const std::vector<std::vector<int>>& inputs) {
  Network result;
  for (const auto& from : inputs) {
    Layer layer;
    for (const int input : from) layer.inputs.emplace_back(input);
    for (int i = 0; i < 2; ++i) {
      layer.parameters.push_back(static_cast<int>(result.parameters.size()));
      result.parameters.emplace_back().shape = {2};
    }
    result.layers.push_back(layer);
  }
  return result;
}

using Epochs = std::vector<double>;
constexpr double kInf = kToTheEnd;

Epochs until(const Network& of, Epochs learns_until, bool reads_all = false) {
  CompileRequest request;
  request.update.learns_until = std::move(learns_until);
  request.reads_all_gradients = reads_all;
  return backward_until(of, request);
}

TEST(LearningPhases, BackwardGoesAsFarAsSomethingLearns) {
  const Network chain = network({{-1}, {0}, {1}});
  EXPECT_EQ(until(chain, {3, 3, kInf, kInf, kInf, kInf}), (Epochs{3, 3, kInf, kInf, kInf, kInf}));
  EXPECT_EQ(until(chain, {3, 2, 1, 1, kInf, kInf}), (Epochs{3, 3, 3, 3, kInf, kInf}))
      << "a layer after needs its input's gradient";
  EXPECT_EQ(until(chain, {3, kInf, 1, 1, kInf, kInf}), Epochs(6, kInf)) << "a bias that learns keeps its layer";
  EXPECT_EQ(until(chain, {kInf, kInf, 1, 1, kInf, kInf}), Epochs(6, kInf)) << "in the middle";
  EXPECT_EQ(until(chain, {}), Epochs(6, kInf));
}

TEST(LearningPhases, EveryBranchCounts) {
  const Network joined = network({{-1}, {-1}, {0, 1}});
  EXPECT_EQ(until(joined, {2, 2, 5, 5, 1, 1}), (Epochs{2, 2, kInf, kInf, kInf, kInf}))
      << "what stops last is computed to the end";
}

TEST(LearningPhases, AStageMayReadAllGradients) {
  EXPECT_EQ(until(network({{-1}, {0}}), {3, 3, kInf, kInf}, true), Epochs(4, kInf));
}

TEST(LearningPhases, WhatIsFrozenDoesNotLearn) {
  Network chain = network({{-1}, {0}, {1}});
  chain.parameters[0].trainable = chain.parameters[3].trainable = false;
  EXPECT_EQ(until(chain, {kInf, 3, 2, kInf, kInf, kInf}), (Epochs{3, 3, 3, 3, kInf, kInf}));
}

TEST(LearningPhases, BeginAtTheFirstWholeEpoch) {
  CompileRequest request;
  request.update.learns_until = {0, 0, 2.5, 1, kInf, kInf};
  const LearningPhases phases(network({{-1}, {0}, {1}}), request);
  ASSERT_EQ(phases.count(), 2U);
  EXPECT_FALSE(phases.network(0).parameters[0].trainable) << "it never learns";
  EXPECT_TRUE(phases.network(0).parameters[2].trainable);
  EXPECT_FALSE(phases.network(1).parameters[2].trainable);
  EXPECT_TRUE(phases.network(1).parameters[4].trainable);
  EXPECT_EQ(phases.at(0), 0U);
  EXPECT_EQ(phases.at(2), 0U);
  EXPECT_EQ(phases.at(3), 1U);
  EXPECT_EQ(phases.at(1000), 1U);
}

}  // namespace
}  // namespace millrace

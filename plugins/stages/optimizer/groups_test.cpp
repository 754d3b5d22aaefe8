#include "groups.h"

#include <gtest/gtest.h>

#include "millrace/backend/buckets.h"
#include "millrace/error.h"
#include "testkit/messages.h"

namespace millrace {
namespace {

Network network() {
  Network result;
  result.parameters = {
      {.name = "conv1.weight", .shape = {4, 2}, .initialiser = {}},
      {.name = "conv1.bias", .shape = {4}, .initialiser = {}, .rate_factor = 2, .decay_factor = 0.5},
      {.name = "layer1.bn1.bias", .shape = {4}, .initialiser = {}},
      {.name = "layer1.bn1.running_mean", .shape = {4}, .initialiser = {}, .trainable = false, .statistic = true}};
  return result;
}

using Factors = std::vector<double>;

TEST(Groups, MultiplyTheNetworksOwnFactors) {
  const Groups groups({{.match = {"*.bias"}, .rate_factor = 64, .decay_factor = 0.25}}, network());
  EXPECT_EQ(groups.rate_factors(0), (Factors{1, 128, 64, 1}));
  EXPECT_EQ(groups.decay_factors(), (Factors{1, 0.125, 0.25, 0}));
}

TEST(Groups, TheFirstMatchCounts) {
  const Groups groups({{.match = {"conv1.*"}, .rate_factor = 3}, {.match = {"*.bias"}, .rate_factor = 5}}, network());
  EXPECT_EQ(groups.rate_factors(0), (Factors{3, 6, 5, 1}));
}

TEST(Groups, StopAtTheirEpoch) {
  const Groups groups({{.match = {"conv1.bias"}, .until_epoch = 3}, {.match = {"*bn*bias"}, .until_epoch = 1.5}}, network());
  EXPECT_EQ(groups.rate_factors(0), (Factors{1, 2, 1, 1}));
  EXPECT_EQ(groups.rate_factors(1.49), (Factors{1, 2, 1, 1}));
  EXPECT_EQ(groups.rate_factors(1.5), (Factors{1, 2, 0, 1}));
  EXPECT_EQ(groups.rate_factors(3), (Factors{1, 0, 0, 1}));
  EXPECT_EQ(groups.learns_until(), (Factors{kToTheEnd, 3, 1.5, kToTheEnd}));
  EXPECT_EQ(Groups({{.match = {"conv1.*"}, .rate_factor = 0, .until_epoch = 2}}, network()).learns_until(),
            (Factors{0, 0, kToTheEnd, kToTheEnd}));
}

TEST(Groups, NeverDecayStatistics) {
  const Groups groups({{.match = {"*"}, .decay_factor = 7}}, network());
  EXPECT_EQ(groups.decay_factors(), (Factors{7, 3.5, 7, 0}));
}

TEST(Groups, TakeNamesOfSeveralPatternsAndAllVectors) {
  const Groups groups({{.match = {"conv1.weight", "*.running_mean"}}, {.vectors = true}}, network());
  EXPECT_EQ(groups.group_of(), (std::vector<int>{0, 1, 1, 0}));
  EXPECT_EQ(Groups({{.match = {"conv1.*"}}}, network()).group_of(), (std::vector<int>{0, 0, -1, -1}));
}

TEST(Groups, TellWhichTrainNothing) {
  Network frozen = network();
  frozen.parameters[0].trainable = frozen.parameters[1].trainable = false;
  const std::vector<GroupParams> groups = {{.match = {"conv1.*"}}, {.match = {"*.running_*"}}, {.match = {"layer1.*"}}};
  EXPECT_EQ(Groups(groups, frozen).frozen(), (std::vector<std::size_t>{0, 1}));
  EXPECT_EQ(Groups(groups, network()).frozen(), (std::vector<std::size_t>{1}));
}

std::string mistake(const std::vector<GroupParams>& groups, const Network& of) {
  try {
    const Groups made(groups, of);
    return {};
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::usage);
    return error.what();
  }
}

TEST(Groups, APatternThatFitsNothingIsAMistake) { EXPECT_MESSAGE(mistake({{.match = {"conv1.bias", "*.bais"}}}, network())); }

TEST(Groups, AGroupThatOthersLeaveNothingIsAMistake) {
  EXPECT_MESSAGE(mistake({{.match = {"conv1.*"}}, {.match = {"conv1.bias"}, .rate_factor = 3}}, network()));
  EXPECT_EQ(mistake({{.match = {"conv1.bias"}, .rate_factor = 3}, {.match = {"conv1.*"}}}, network()), "");
}

TEST(Groups, AGroupWithoutParametersIsAMistake) {
  EXPECT_MESSAGE(mistake({{.rate_factor = 2}}, network()));
  Network matrices;
  matrices.parameters = {{.name = "fc.weight", .shape = {4, 4}, .initialiser = {}}};
  EXPECT_MESSAGE(mistake({{.vectors = true}}, matrices));
}

}  // namespace
}  // namespace millrace

#include "run/weights.h"

#include <gtest/gtest.h>

namespace millrace {
namespace {

DeviceInfo device(const std::string& backend, const std::string& name) {
  DeviceInfo info;
  info.backend = backend;
  info.name = name;
  return info;
}

TEST(WeightedMean, IsThatOfTheReplicasThatHaveSeenImages) {
  const std::vector<std::vector<float>> copies = {{1, 0.1F}, {4, 0.7F}, {9, 0.3F}};
  EXPECT_EQ(weighted_mean({{1, 2}, {4, 6}}, {}), (std::vector<float>{2.5F, 4}));
  EXPECT_EQ(weighted_mean({{1, 2}, {4, 6}}, std::vector<double>{3, 1}), (std::vector<float>{1.75F, 3}));
  EXPECT_EQ(weighted_mean(copies, std::vector<double>{0, 3, 0}), copies[1]);  // bit for bit
  EXPECT_EQ(weighted_mean({copies[1], copies[1], copies[1]}, {}), copies[1]);
}

TEST(Plans, AreThoseOfTheReplicaElseOfItsModelElseOfItsBackend) {
  const std::map<std::string, std::string> metadata = {{"format", "pt"},
                                                       {"plans of cuda: H100, replica 0", "first"},
                                                       {"plans of cuda: H100, replica 1", "second"},
                                                       {"plans of cuda: L4, replica 2", "third"}};
  EXPECT_EQ(plans_for(device("cuda", "H100"), 1, metadata), "second");
  EXPECT_EQ(plans_for(device("cuda", "H100"), 3, metadata), "first");
  EXPECT_EQ(plans_for(device("cuda", "L4"), 0, metadata), "third");
  EXPECT_EQ(plans_for(device("cuda", "A100"), 0, metadata), "first");  // which will say that it is another's
  EXPECT_EQ(plans_for(device("rocm", "MI300"), 0, metadata), "");
  EXPECT_EQ(plans_for(device("cuda", "H100"), 0, {}), "");
}

TEST(Classes, GoThroughTheMetadataOfWeights) {
  const std::vector<std::string> names = {"cat", "a \"quoted\" owl", "Käuzchen"};
  EXPECT_EQ(classes_from(metadata_of(names)), names);
  EXPECT_TRUE(metadata_of(std::vector<std::string>{}).empty());
  EXPECT_TRUE(classes_from({{"format", "pt"}}).empty());
  for (const char* others : {"", "cat, dog", "{\"0\": \"cat\"}", "[1, 2]"})
    EXPECT_TRUE(classes_from({{"classes", others}}).empty());
}

}  // namespace
}  // namespace millrace

#include "run/devices.h"

#include <gtest/gtest.h>

namespace millrace {
namespace {

using Cores = std::vector<int>;

TEST(Devices, AreParsedFromOneText) {
  EXPECT_EQ(parse_devices("auto").backend, "auto");
  EXPECT_TRUE(parse_devices("cpu").indices.empty());
  EXPECT_EQ(parse_devices("cpu*2").indices, (std::vector<int>{0, 0}));
  const DeviceRequest cuda = parse_devices("cuda:0,2");
  EXPECT_EQ(cuda.backend, "cuda");
  EXPECT_EQ(cuda.indices, (std::vector<int>{0, 2}));
}

TEST(Devices, RefuseWhatTheyCannotRead) {
  for (const char* text : {"", ":0", "cpu*", "cpu*0", "cpu*x", "cuda:", "cuda:0,", "cuda:0,0", "cuda:-1", "cuda:1x"}) {
    EXPECT_THROW(parse_devices(text), Error) << text;
  }
}

TEST(Cores, AreSharedWithTheDataStagesWhereTheyAreFew) {
  const CoreShares one = share_cores({0, 1}, 1, {});
  EXPECT_EQ(one.replicas[0], (Cores{0, 1}));
  EXPECT_TRUE(one.data.empty());
  const CoreShares two = share_cores({0, 1}, 2, {});
  EXPECT_EQ(two.replicas[0], Cores{0});
  EXPECT_EQ(two.replicas[1], Cores{1});
}

TEST(Cores, AreDisjointAndLeaveAnEighthToTheDataStages) {
  Cores all(16);
  for (int i = 0; i < 16; ++i) all[static_cast<std::size_t>(i)] = i;
  const CoreShares shares = share_cores(all, 3, {1, 1, 0.5});
  EXPECT_EQ(shares.data, (Cores{14, 15}));
  EXPECT_EQ(shares.replicas[0].size() + shares.replicas[1].size() + shares.replicas[2].size(), 14U);
  EXPECT_EQ(shares.replicas[0].front(), 0);
  EXPECT_EQ(shares.replicas[2].back(), 13);
  EXPECT_LT(shares.replicas[2].size(), shares.replicas[0].size());
}

TEST(Cores, EveryReplicaHasOneEvenWhenTheyAreTooFew) {
  const CoreShares shares = share_cores({4, 5}, 3, {});
  EXPECT_EQ(shares.replicas[2], Cores{4});
  const CoreShares uneven = share_cores({0, 1, 2}, 2, {1, 0.001});
  EXPECT_EQ(uneven.replicas[0], (Cores{0, 1}));
  EXPECT_EQ(uneven.replicas[1], Cores{2});
}

}  // namespace
}  // namespace millrace

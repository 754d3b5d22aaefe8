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

}  // namespace
}  // namespace millrace

// The description of every observer, and its response to wrong parameters.
#include "millrace/observer.h"
#include "discovered.h"

namespace millrace::conformance {
namespace {

std::vector<std::string> observer_names() {
  std::vector<std::string> names;
  for (const auto& [name, type] : registry().observers()) names.push_back(name);
  return names;
}

class EveryObserver : public testing::TestWithParam<std::string> {};

TEST_P(EveryObserver, DescribesItself) { expect_passes("observer", "description", GetParam()); }
TEST_P(EveryObserver, AcceptsItsOwnDefaults) { expect_passes("observer", "defaults", GetParam()); }
TEST_P(EveryObserver, NamesAnUnknownKey) { expect_passes("observer", "refusals", GetParam()); }
TEST_P(EveryObserver, IsMadeOfWhatItRequires) { expect_passes("observer", "construction", GetParam()); }

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(EveryObserver);
INSTANTIATE_TEST_SUITE_P(Discovered, EveryObserver, testing::ValuesIn(observer_names()), by_name);

}  // namespace
}  // namespace millrace::conformance

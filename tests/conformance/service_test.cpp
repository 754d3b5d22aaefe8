// Requirements of every storage.
#include "discovered.h"

#include "millrace/storage.h"

namespace millrace::conformance {
namespace {

class EveryStorage : public testing::TestWithParam<std::string> {};

TEST_P(EveryStorage, DescribesItself) { expect_passes("storage", "description", GetParam()); }
TEST_P(EveryStorage, ListsEachFileInOrder) { expect_passes("storage", "listing", GetParam()); }
TEST_P(EveryStorage, ReadsAtAnyPlaceWhatTheWholeHasThere) { expect_passes("storage", "reading", GetParam()); }
TEST_P(EveryStorage, NamesWhatIsNotThere) { expect_passes("storage", "refusals", GetParam()); }
TEST_P(EveryStorage, MayBeReadByManyThreads) { expect_passes("storage", "thread safety", GetParam()); }

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(EveryStorage);
INSTANTIATE_TEST_SUITE_P(Discovered, EveryStorage, testing::ValuesIn(registry().storages().names()), by_name);

}  // namespace
}  // namespace millrace::conformance

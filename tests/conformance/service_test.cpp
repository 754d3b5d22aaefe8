// What every storage and every digest has to do.
#include "discovered.h"

namespace millrace::conformance {
namespace {

std::vector<std::string> storage_names() {
  std::vector<std::string> names;
  for (const auto& [scheme, type] : registry().storages()) names.push_back(scheme);
  return names;
}

std::vector<std::string> digest_names() {
  std::vector<std::string> names;
  for (const auto& [name, type] : registry().digests()) names.push_back(name);
  return names;
}

class EveryStorage : public testing::TestWithParam<std::string> {};

TEST_P(EveryStorage, DescribesItself) { expect_passes("storage", "description", GetParam()); }
TEST_P(EveryStorage, ListsEachFileInOrder) { expect_passes("storage", "listing", GetParam()); }
TEST_P(EveryStorage, ReadsAtAnyPlaceWhatTheWholeHasThere) { expect_passes("storage", "reading", GetParam()); }
TEST_P(EveryStorage, NamesWhatIsNotThere) { expect_passes("storage", "refusals", GetParam()); }
TEST_P(EveryStorage, MayBeReadByManyThreads) { expect_passes("storage", "thread safety", GetParam()); }

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(EveryStorage);
INSTANTIATE_TEST_SUITE_P(Discovered, EveryStorage, testing::ValuesIn(storage_names()), by_name);

class EveryDigest : public testing::TestWithParam<std::string> {};

TEST_P(EveryDigest, DescribesItself) { expect_passes("digest", "description", GetParam()); }
TEST_P(EveryDigest, DependsOnEachByteAndNothingElse) { expect_passes("digest", "determinism", GetParam()); }
TEST_P(EveryDigest, IsThatOfTheWholeForAnyPieces) { expect_passes("digest", "pieces", GetParam()); }
TEST_P(EveryDigest, HasAlwaysAsManyDigits) { expect_passes("digest", "digits", GetParam()); }

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(EveryDigest);
INSTANTIATE_TEST_SUITE_P(Discovered, EveryDigest, testing::ValuesIn(digest_names()), by_name);

}  // namespace
}  // namespace millrace::conformance

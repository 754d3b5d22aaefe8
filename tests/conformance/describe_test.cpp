// The description of every stage type, and its response to wrong parameters.
#include <algorithm>

#include "discovered.h"
#include "millrace/communicator.h"
#include "millrace/observer.h"
#include "millrace/util/load_plugins.h"

namespace millrace::conformance {
namespace {

class EveryDescription : public testing::TestWithParam<std::string> {};

TEST_P(EveryDescription, DescribesItself) { expect_passes("stage", "description", GetParam()); }
TEST_P(EveryDescription, AcceptsItsOwnDefaults) { expect_passes("stage", "defaults", GetParam()); }
TEST_P(EveryDescription, NamesAnUnknownKey) { expect_passes("stage", "unknown key", GetParam()); }
TEST_P(EveryDescription, NamesAParameterOfTheWrongType) { expect_passes("stage", "wrong type", GetParam()); }
TEST_P(EveryDescription, NamesAChoiceThatDoesNotExist) { expect_passes("stage", "wrong choice", GetParam()); }
TEST_P(EveryDescription, NamesAParameterOutOfItsRange) { expect_passes("stage", "out of range", GetParam()); }
TEST_P(EveryDescription, NamesEachRequiredParameterThatIsMissing) { expect_passes("stage", "missing key", GetParam()); }

INSTANTIATE_TEST_SUITE_P(Discovered, EveryDescription, testing::ValuesIn(stage_names()), by_name);

TEST(EveryPlugin, IsLoadedWithoutComplaint) {
  EXPECT_FALSE(loaded_plugins(registry()).empty());
  for (const std::string& reason : load_errors(registry())) ADD_FAILURE() << reason;
  for (const PluginInfo& plugin : loaded_plugins(registry())) {
    EXPECT_FALSE(plugin.name.empty()) << plugin.path;
    EXPECT_EQ(plugin.name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_"), std::string::npos) << plugin.path;
    EXPECT_FALSE(plugin.version.empty()) << plugin.path;
    EXPECT_FALSE(plugin.text.empty()) << plugin.path;
  }
}

TEST(EveryPlugin, OffersSomething) {
  for (const PluginInfo& plugin : loaded_plugins(registry())) {
    const auto belongs = [&](const auto& entry) { return entry.second.plugin == plugin.name; };
    EXPECT_TRUE(std::any_of(registry().stages().begin(), registry().stages().end(), belongs) ||
                std::any_of(registry().backends().begin(), registry().backends().end(), belongs) ||
                std::any_of(registry().observers().begin(), registry().observers().end(), belongs) ||
                !registry().communicators().empty())
        << plugin.name;
  }
}

}  // namespace
}  // namespace millrace::conformance

#include "prepare/build.h"

#include <gtest/gtest.h>

#include "plugin/registry_content.h"
#include "testkit/harness.h"
#include "testkit/stages.h"

namespace millrace {
namespace {

// A source that reports whether its data have changed.
class ToldSource : public testkit::CountingSource {
 public:
  using CountingSource::CountingSource;
  std::uint64_t fingerprint() const override { return 7; }
};

struct BuiltWith {
  std::string source, stage;
};

std::uint64_t fingerprint_of(const BuiltWith& versions) {
  Registry registry;
  RegistryContent::of(registry).plugins = {{"reading", versions.source, "", ""}, {"painting", versions.stage, "", ""}};
  StageType source = StageTypeAccess::make<ToldSource>(), stage = StageTypeAccess::make<testkit::Paint>();
  source.plugin = "reading";
  stage.plugin = "painting";
  GraphPlan plan;
  plan.name = "train";
  plan.stages = {{"read", &source, testkit::table({}), {}, {}}, {"paint", &stage, testkit::table({}), {}, {}}};
  DataContext context;
  context.registry = &registry;
  return GraphBuild(plan, context).data().fingerprint;
}

// Another version may produce other pixels, which must not be mixed in one cache file.
TEST(GraphBuild, TheFingerprintKnowsTheVersionsOfPlugins) {
  EXPECT_EQ(fingerprint_of({"1.0", "1.0"}), fingerprint_of({"1.0", "1.0"}));
  EXPECT_NE(fingerprint_of({"1.1", "1.0"}), fingerprint_of({"1.0", "1.0"}));
  EXPECT_NE(fingerprint_of({"1.0", "1.1"}), fingerprint_of({"1.0", "1.0"}));
}

}  // namespace
}  // namespace millrace

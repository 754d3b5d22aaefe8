#include "prepare/graph_build.h"

#include <gtest/gtest.h>

#include "millrace/error.h"
#include "plugin/registry_content.h"
#include "prepare/data_line.h"
#include "testkit/files.h"
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

// A stage that cannot be opened at first.
class OpenedSecondTime : public testkit::Paint {
 public:
  using Paint::Paint;
  void open() override {
    if (++opened_ == 1) fail(ErrorKind::storage, "not there");
  }
  static int opened() { return opened_; }

 private:
  static inline int opened_ = 0;  // calls
};

TEST(GraphBuild, OpensAStageOnceForDataLinesAndTheGraph) {
  const StageType source = StageTypeAccess::make<testkit::CountingSource>(), stage = StageTypeAccess::make<OpenedSecondTime>();
  GraphPlan plan;
  plan.name = "train";
  plan.stages = {{"read", &source, testkit::table({}), {}, {}}, {"paint", &stage, testkit::table({}), {}, {}}};
  const GraphBuild build(plan, {});
  const Error error = testkit::error_of(ErrorKind::storage, [&] { const DataLine line(build, 1); });
  EXPECT_NE(std::string(error.what()).find("[train.paint]: not there"), std::string::npos) << error.what();
  const DataLine first(build, 1), second(build, 1);
  build.open_stages();
  EXPECT_EQ(OpenedSecondTime::opened(), 2);
}

}  // namespace
}  // namespace millrace

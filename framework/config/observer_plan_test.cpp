#include "config/plan_fixture.h"
#include "config/schema.h"
#include "millrace/observer.h"
#include "util/json.h"

#include "testkit/messages.h"

namespace millrace::plan_test {
namespace {

class Console : public RunObserver {
 public:
  struct Params {
    bool quiet = false;
    std::int64_t lines = 3;
  };
  static void describe(ObserverDescription<Params>& d) {
    d.name("console").text("Shows progress.").delivery(Delivery::latest).by_default();
    d.params.add("quiet", &Params::quiet).text("only warnings");
    d.params.add("lines", &Params::lines).range(1, 9).text("so many");
  }
};

class Results : public RunObserver {
 public:
  using Params = NoParams;
  static void describe(ObserverDescription<Params>& d) { d.name("results").text("Writes a table."); }
};

class ObserverPlanTest : public PlanFixture {
 protected:
  void SetUp() override {
    PlanFixture::SetUp();
    registry_.add_observer<Console>();
    registry_.add_observer<Results>();
  }
  std::string names(const std::string& text, const std::vector<std::string>& overrides = {}) {
    std::string all;
    for (const ObserverPlan& plan : load(train(text), overrides).observers) all += plan.name + " ";
    return all;
  }
};

TEST_F(ObserverPlanTest, ThoseByDefaultListenUnlessTheFileSaysNo) {
  EXPECT_EQ(names(""), "console ");
  EXPECT_EQ(names("[observe]\nconsole = false\n"), "");
  EXPECT_EQ(names("[observe.results]\n"), "console results ");
  EXPECT_EQ(names("[observe]\nresults = true\n"), "console results ");
  EXPECT_EQ(names("", {"observe.console=false"}), "");
  EXPECT_EQ(names("", {"observe.results=true"}), "console results ");
}

TEST_F(ObserverPlanTest, TablesHoldTheirParameters) {
  const Pipeline pipeline = load(train("[observe.console]\nlines = 5\n"), {"observe.console.quiet=true"});
  ASSERT_EQ(pipeline.observers.size(), 1U);
  EXPECT_EQ(to_toml(pipeline.observers[0].table), "lines = 5\nquiet = true\n");
  EXPECT_EQ(pipeline.observers[0].type, registry_.observers().find("console"));
}

TEST_F(ObserverPlanTest, MistakesAreNamedWithTheirPlaces) {
  EXPECT_MESSAGE(
      mistakes(train("[observe.consol]\n[observe.console]\nquit = true\nlines = 10\n[observe.results]\nfile = \"x\"\n")));
  EXPECT_MESSAGE(mistakes(train("[observe]\nconsole = 3\n")));
  EXPECT_MESSAGE(mistakes("observe = true\n" + train()));
  EXPECT_MESSAGE(mistakes(train("[obserbe.console]\nquiet = true\n")));
}

TEST_F(ObserverPlanTest, TheSchemaKnowsThem) {
  const Json schema = Json::parse(json_schema(registry_));
  const Json& observers = schema["properties"]["observe"];
  EXPECT_EQ(observers["additionalProperties"], false);
  const Json& console = observers["properties"]["console"];
  EXPECT_EQ(console["description"], "Shows progress.");
  EXPECT_EQ(console["anyOf"][0]["properties"]["lines"]["default"], 3);
  EXPECT_EQ(console["anyOf"][1]["type"], "boolean");
}

}  // namespace
}  // namespace millrace::plan_test

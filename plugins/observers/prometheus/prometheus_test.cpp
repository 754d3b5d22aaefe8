#include "millrace/observer.h"
#include "observer_fixture.h"
#include "testkit/small_files.h"

namespace millrace::observer_test {
namespace {

class PrometheusObserverTest : public ObserverFixture {
 protected:
  static TickEvent tick(std::uint64_t step) {
    TickEvent event;
    event.graph = "train";
    event.step = step;
    return event;
  }
};

TEST_F(PrometheusObserverTest, TellsTheNewestStateAtTheEndAndThatTheRunHasEnded) {
  const auto observer = make("prometheus");
  observer->start(start_event(), control_);
  observer->tick(tick(1));
  EXPECT_NE(text_of("millrace.prom").find("} 1\n# HELP millrace_epoch "), std::string::npos) << text_of("millrace.prom");
  observer->tick(tick(7));  // within five seconds
  EpochEvent epoch;
  epoch.graph = "train";
  epoch.figures = {{"loss", 0.25}};
  observer->epoch(epoch);
  EXPECT_EQ(text_of("millrace.prom").find("} 7\n"), std::string::npos);
  RunEnd end;
  end.step = 8;
  observer->end(end);
  const std::string text = text_of("millrace.prom");
  EXPECT_NE(text.find("# TYPE millrace_running gauge\nmillrace_running{run=\"quickstart/"), std::string::npos) << text;
  EXPECT_NE(text.find("} 0\n# HELP millrace_epoch "), std::string::npos) << text;
  EXPECT_NE(text.find("} 8\n# HELP millrace_steps "), std::string::npos) << text;
  EXPECT_NE(text.find("metric=\"loss\"} 0.25\n"), std::string::npos) << text;
}

// Too short for a tick.
TEST_F(PrometheusObserverTest, ARunWithoutATickHasItsSteps) {
  const auto observer = make("prometheus");
  RunStart start = start_event();
  start.steps = start.steps_per_epoch = 9;
  observer->start(start, control_);
  EpochEvent epoch;
  epoch.graph = "train";
  epoch.step = 9;
  observer->epoch(epoch);
  RunEnd end;
  end.step = 9;
  observer->end(end);
  const std::string text = text_of("millrace.prom");
  EXPECT_NE(text.find("# TYPE millrace_steps gauge\nmillrace_steps{"), std::string::npos) << text;
  EXPECT_EQ(text.find("} 0\n# HELP millrace_images_per_second"), std::string::npos) << "steps of the run: " << text;
}

TEST_F(PrometheusObserverTest, AFullDiskKeepsTheFileAndIsSaidOnce) {
  const auto observer = make("prometheus");
  observer->start(start_event(), control_);
  observer->tick(tick(1));
  const std::string before = text_of("millrace.prom");
  {
    const testkit::SmallFiles full(10);
    observer->end({});
    observer->end({});
    EXPECT_EQ(text_of("millrace.prom"), before);
  }
  ASSERT_EQ(control_.texts.size(), 1U);
  EXPECT_NE(control_.texts[0].find("keeps its old content until it can be written: cannot write '"), std::string::npos)
      << control_.texts[0];
}

TEST_F(PrometheusObserverTest, RefusesANameThatTheCollectorDoesNotRead) {
  Diagnostics errors;
  registry().observers().find("prometheus")->create(Value(Table{{"file", {}, Value("run.txt")}}), "[observe.prometheus]", errors);
  EXPECT_NE(errors.text().find("file = 'run.txt': the collector reads files that end in .prom"), std::string::npos)
      << errors.text();
}

}  // namespace
}  // namespace millrace::observer_test

#include <cstdlib>
#include <nlohmann/json.hpp>

#include "http_fixture.h"
#include "millrace/observer.h"
#include "millrace/util/load_plugins.h"
#include "observer_fixture.h"

namespace millrace::observer_test {
namespace {

using Json = nlohmann::json;
using Clock = std::chrono::steady_clock;

class KubeflowTest : public ObserverFixture {
 protected:
  KubeflowTest() { load_plugin(registry_, MILLRACE_PLUGINS "/observer_kubeflow.so"); }
  ~KubeflowTest() override {
    for (const char* name : {"KUBEFLOW_TRAINER_SERVER_URL", "KUBEFLOW_TRAINER_SERVER_TOKEN"}) ::unsetenv(name);
  }
  // An observer in a TrainJob whose server is at `url`.
  std::shared_ptr<RunObserver> started(const std::string& url) {
    std::ofstream(folder_ / "token") << "first\n";
    ::setenv("KUBEFLOW_TRAINER_SERVER_URL", url.c_str(), 1);
    ::setenv("KUBEFLOW_TRAINER_SERVER_TOKEN", (folder_ / "token").c_str(), 1);
    Diagnostics errors;
    auto observer = registry_.observers().find("kubeflow")->create(Value(), "[observe.kubeflow]", errors);
    EXPECT_EQ(errors.text(), "");
    observer->start(start_event(), control_);
    return observer;
  }
  static TickEvent tick(std::uint64_t step) {
    TickEvent event;
    event.graph = "train";
    event.epoch = 1.25;
    event.epochs = 2;
    event.step = step;
    event.steps = 8;
    event.seconds_left = 12.2;
    event.figures = {{"loss", 0.25, false, false}};
    event.images_per_second = 100;
    return event;
  }
  static RunEnd done() {
    RunEnd end;
    end.step = 8;
    end.epoch = 2;
    return end;
  }

 private:
  Registry registry_;
};

TEST_F(KubeflowTest, TellsProgressMetricsAndTheEndWithTheNewestToken) {
  HttpServer server;
  const auto observer = started(server.url() + "/apis/status");
  observer->tick(tick(5));
  observer->tick(tick(6));  // within five seconds
  observer->pass(pass_event());
  std::ofstream(folder_ / "token") << "second\n";  // as Kubernetes renews it
  observer->end(done());
  const auto requests = server.requests();
  ASSERT_EQ(requests.size(), 2U);
  EXPECT_EQ(requests[0].line, "post /apis/status http/1.1");
  EXPECT_NE(requests[0].head.find("authorization: bearer first\r\n"), std::string::npos) << requests[0].head;
  EXPECT_NE(requests[0].head.find("content-type: application/json\r\n"), std::string::npos);
  EXPECT_NE(requests[1].head.find("authorization: bearer second\r\n"), std::string::npos);
  const Json first = Json::parse(requests[0].body)["trainerStatus"], last = Json::parse(requests[1].body)["trainerStatus"];
  EXPECT_EQ(first["progressPercentage"], 62);
  EXPECT_EQ(first["estimatedRemainingSeconds"], 13);
  EXPECT_EQ(first["lastUpdatedTime"].get<std::string>().size(), std::string("2026-01-01T00:00:00Z").size());
  EXPECT_EQ(first["metrics"], Json::parse(R"([{"name":"epoch","value":"1.25"},{"name":"epochs","value":"2"},)"
                                          R"({"name":"images_per_second","value":"100"},{"name":"loss","value":"0.25"}])"));
  EXPECT_EQ(last["progressPercentage"], 100);
  EXPECT_EQ(last["estimatedRemainingSeconds"], 0);
  EXPECT_NE(last["metrics"].dump().find(R"({"name":"validate/loss","value":"0.5"})"), std::string::npos) << last;
  EXPECT_TRUE(control_.texts.empty());
}

TEST_F(KubeflowTest, DoesNothingOutsideOfATrainJob) {
  HttpServer server;
  const auto observer = started("");
  observer->tick(tick(5));
  observer->end(done());
  EXPECT_TRUE(server.requests().empty());
}

TEST_F(KubeflowTest, ARefusalIsSaidOnceAndTheRunGoesOn) {
  HttpServer server;
  server.status = 500;
  const auto observer = started(server.url());
  observer->tick(tick(5));
  observer->end(done());
  ASSERT_EQ(control_.texts.size(), 1U);
  EXPECT_NE(control_.texts[0].find("the response was HTTP 500; the run continues"), std::string::npos) << control_.texts[0];
  EXPECT_EQ(server.requests().size(), 1U) << "the end asks no server that has just failed";
}

TEST_F(KubeflowTest, ASilentServerHoldsUpTheEndForTwoSecondsAtMost) {
  HttpServer server;
  server.silent = true;
  const auto observer = started(server.url());
  const auto begin = Clock::now();
  observer->tick(tick(5));
  observer->end(done());
  EXPECT_LT(Clock::now() - begin, std::chrono::seconds(20)) << "two seconds, on a machine that is not busy";
  EXPECT_EQ(control_.texts.size(), 1U);
}

}  // namespace
}  // namespace millrace::observer_test

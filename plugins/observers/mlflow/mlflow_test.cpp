// Server faults. tests/records uses MLflow's own server.
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

// MLflow's answer for a run whose metric train/loss was recorded up to step 2.
std::string as_mlflow(const HttpServer::Request& request) {
  if (request.line.find("get-by-name") != std::string::npos) return R"({"experiment":{"experiment_id":"7"}})";
  if (request.line.find("runs/create") != std::string::npos) return R"({"run":{"info":{"run_id":"abc"}}})";
  if (request.line.find("runs/get?") != std::string::npos)
    return R"({"run":{"data":{"metrics":[{"key":"train/loss","value":1.0,"step":2}]}}})";
  return "{}";
}

class MlflowTest : public ObserverFixture {
 protected:
  MlflowTest() {
    load_plugin(registry_, MILLRACE_PLUGINS "/observer_mlflow.so");
    std::ofstream(folder_ / "pipeline.toml") << "[train.batch]\nsize = 100\n";
    server_.answer = as_mlflow;
  }
  std::shared_ptr<RunObserver> started(const RunStart& start) {
    Diagnostics errors;
    auto observer = registry_.observers().find("mlflow")->create(Value(Table{{"uri", {}, Value(server_.url() + "/")}}),
                                                                 "[observe.mlflow]", errors);
    EXPECT_EQ(errors.text(), "");
    observer->start(start, control_);
    return observer;
  }
  RunStart resumed_after(std::uint64_t recorded, std::uint64_t today) const {
    RunStart start = start_event();
    start.resumed = true;
    start.checkpoint_step = recorded;
    start.first_step = today + 1;
    return start;
  }
  static StepEvent loss_at(std::uint64_t step) {
    StepEvent event = step_event();
    event.step = step;
    event.figures = {{"loss", 0.25, false, false}};
    event.scalars.clear();
    event.reported = false;
    return event;
  }
  // "train/loss@3" for all recorded values, and the status of the run.
  std::string told() const {
    std::string text;
    for (const HttpServer::Request& request : server_.requests()) {
      const Json body = Json::parse(request.body.empty() ? "{}" : request.body);
      for (const Json& metric : body.value("metrics", Json::array()))
        text += fmt::format("{}@{} ", metric["key"].get<std::string>(), metric["step"].get<int>());
      if (body.contains("status")) text += body["status"].get<std::string>() + " ";
    }
    return text;
  }

  HttpServer server_;

 private:
  Registry registry_;
};

TEST_F(MlflowTest, RecordsParametersMetricsAndTheEnd) {
  ::setenv("MLFLOW_TRACKING_USERNAME", "Aladdin", 1);
  ::setenv("MLFLOW_TRACKING_PASSWORD", "open sesame", 1);
  const auto observer = started(start_event());
  for (const char* name : {"MLFLOW_TRACKING_USERNAME", "MLFLOW_TRACKING_PASSWORD"}) ::unsetenv(name);
  StepEvent step = step_event();
  step.figures.push_back({"a=b", std::numeric_limits<double>::quiet_NaN(), false, false});
  observer->step(step);
  observer->epoch(epoch_event());
  observer->pass(pass_event());
  observer->end({});
  EXPECT_EQ(told(),
            "train/loss@3 train/accuracy@3 train/a_b@3 learning_rate@3 images_per_second@3 train/epoch_loss@4 "
            "train/epoch_accuracy@4 train/epoch_top5@4 validate/loss@4 validate/mean_iou@4 FINISHED ");
  const auto requests = server_.requests();
  EXPECT_EQ(requests[0].line, "get /api/2.0/mlflow/experiments/get-by-name?experiment_name=quickstart http/1.1");
  EXPECT_EQ(Json::parse(requests[1].body)["experiment_id"], "7");
  EXPECT_EQ(Json::parse(requests[1].body)["run_name"], folder_.filename().string());
  EXPECT_EQ(Json::parse(requests[2].body)["params"], Json::parse(R"([{"key":"train.batch.size","value":"100"}])"));
  EXPECT_NE(requests[3].head.find("authorization: basic qwxhzgrpbjpvcgvuihnlc2ftzq==\r\n"), std::string::npos)
      << "the example of RFC 7617; the head is in lower case here";
  EXPECT_NE(requests[3].body.find(R"("value":"NaN")"), std::string::npos) << requests[3].body;
  EXPECT_TRUE(control_.texts.empty());
}

TEST_F(MlflowTest, AResumedRunGoesOnAtTheServerWithTheStepsAfterItsCheckpoint) {
  {
    const auto observer = started(start_event());
    observer->step(loss_at(1));
    observer->step(loss_at(2));
    observer->sync();  // before a checkpoint; then it is killed
    EXPECT_EQ(told(), "train/loss@1 train/loss@2 ");
  }
  const auto observer = started(resumed_after(1, 1));
  observer->step(loss_at(2));  // repeated, perhaps with another rate
  observer->step(loss_at(3));
  observer->end({});
  EXPECT_EQ(told(), "train/loss@1 train/loss@2 RUNNING train/loss@2 train/loss@3 FINISHED ");
}

TEST_F(MlflowTest, WhatTheServerHasOfACheckpointIsNotSentAgain) {
  std::ofstream(folder_ / "mlflow_run.txt") << "abc\n";
  const auto observer = started(resumed_after(2, 2));
  for (const std::uint64_t step : {1, 2, 3}) observer->step(loss_at(step));
  observer->end({});
  EXPECT_EQ(told(), "RUNNING train/loss@3 FINISHED ");
}

TEST_F(MlflowTest, AResumedRunWithLargerBatchesTellsItsStepsAsItCountsThem) {
  std::ofstream(folder_ / "mlflow_run.txt") << "abc\n";
  const auto observer = started(resumed_after(2, 1));  // the server has step 2 of the earlier count
  observer->step(loss_at(1));
  observer->step(loss_at(2));
  observer->end({});
  EXPECT_EQ(told(), "RUNNING train/loss@2 FINISHED ");
}

TEST_F(MlflowTest, ARunsIdentifierIsWrittenAsSoonAsItCanBe) {
  std::filesystem::create_directory(folder_ / "mlflow_run.txt");
  const auto observer = started(start_event());
  observer->step(loss_at(1));
  observer->sync();
  EXPECT_EQ(told(), "train/loss@1 ") << "metrics do not wait for it";
  std::filesystem::remove(folder_ / "mlflow_run.txt");
  observer->step(loss_at(2));
  observer->end({});
  EXPECT_EQ(told(), "train/loss@1 train/loss@2 FINISHED ");
  EXPECT_EQ(text_of("mlflow_run.txt"), "abc\n");
  ASSERT_EQ(control_.texts.size(), 1U);
  EXPECT_NE(control_.texts[0].find("resuming this run would begin a new one at MLflow"), std::string::npos) << control_.texts[0];
}

TEST_F(MlflowTest, AFaultIsSaidOnceAndMetricsWaitForTheServer) {
  server_.status = 500;
  const auto observer = started(start_event());
  for (std::uint64_t step = 1; step <= 3; ++step) observer->step(loss_at(step));
  server_.wait_for(1);
  while (control_.texts.empty()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  server_.status = 200;
  observer->end({});
  EXPECT_EQ(told(), "train/loss@1 train/loss@2 train/loss@3 FINISHED ");
  ASSERT_EQ(control_.texts.size(), 1U);
  EXPECT_NE(control_.texts[0].find("HTTP 500: {}; the run continues, and metrics are sent later"), std::string::npos)
      << control_.texts[0];
}

TEST_F(MlflowTest, ASilentServerHoldsUpTheEndForALittleAndWhatIsMissingIsSaid) {
  server_.silent = true;
  const auto observer = started(start_event());
  observer->step(loss_at(1));
  const auto begin = Clock::now();
  observer->end({});
  EXPECT_LT(Clock::now() - begin, std::chrono::seconds(60)) << "ten seconds, on a machine that is not busy";
  ASSERT_FALSE(control_.texts.empty());
  EXPECT_NE(control_.texts.back().find("lacks 1 metrics and the end of the run"), std::string::npos) << control_.texts.back();
}

TEST_F(MlflowTest, RefusesAPasswordInTheFile) {
  Diagnostics errors;
  Registry registry;
  load_plugin(registry, MILLRACE_PLUGINS "/observer_mlflow.so");
  registry.observers().find("mlflow")->create(Value(Table{{"uri", {}, Value("https://me:pw@host")}}), "[observe.mlflow]", errors);
  EXPECT_NE(errors.text().find("uri: must not contain a password: set MLFLOW_TRACKING_TOKEN"), std::string::npos)
      << errors.text();
}

}  // namespace
}  // namespace millrace::observer_test

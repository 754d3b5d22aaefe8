#include "millrace/observer.h"
#include "observer_fixture.h"

namespace millrace::observer_test {
namespace {

class MetricsObserverTest : public ObserverFixture {};

RunEnd end_event(int signal = 0) {
  RunEnd event;
  event.epoch = 2;
  event.step = 8;
  event.bad_samples = 1;
  event.signal = signal;
  event.elapsed_seconds = 4;
  return event;
}

const std::string kStart =
    R"({"event":"start","name":"quickstart","file":"quickstart.toml","seed":1,"epochs":2.0,"first_step":1,"steps":8,)"
    R"("replicas":1,"elapsed_seconds":0.5})"
    "\n";

TEST_F(MetricsObserverTest, WritesALineForEachEvent) {
  const auto observer = make("metrics");
  observer->start(start_event(), control_);
  EXPECT_EQ(text_of("metrics.jsonl"), kStart);
  observer->step(step_event());
  observer->epoch(epoch_event());
  observer->pass(pass_event());
  observer->end(end_event());
  EXPECT_EQ(
      text_of("metrics.jsonl"),
      kStart +
          R"({"event":"step","epoch":1,"step":3,"loss":0.25,"accuracy":0.5,"percent":["accuracy"],"higher_is_better":["accuracy"],"learning_rate":0.1,)"
          R"("images_per_second":100.0,"elapsed_seconds":1.5})"
          "\n"
          R"({"event":"epoch","epoch":1,"step":4,"loss":0.25,"accuracy":0.5,"top5":0.75,"percent":["top5"],)"
          R"("higher_is_better":["top5"],"images_per_second":100.0,)"
          R"("seconds":2.0,"stream_hash":"0000000000000abc","resident_bytes":1024,"elapsed_seconds":2.5})"
          "\n"
          R"({"event":"validate","graph":"validate","epoch":1.0,"step":4,"samples":130.0,"loss":0.5,"mean_iou":0.125,)"
          R"("percent":["mean_iou"],"higher_is_better":["mean_iou"],)"
          R"("images_per_second":260.0,"seconds":0.5,"stream_hash":"0000000000000def","elapsed_seconds":3.0})"
          "\n"
          R"({"event":"end","epoch":2.0,"step":8,"bad_samples":1,"elapsed_seconds":4.0})"
          "\n");
}

TEST_F(MetricsObserverTest, LeavesOutWhatNoStageReports) {
  const auto observer = make("metrics");
  observer->start(start_event(), control_);
  StepEvent step = step_event();
  step.reported = false;
  step.figures.clear();
  observer->step(step);
  EpochEvent epoch = epoch_event();
  epoch.reported = false;
  epoch.figures.clear();
  observer->epoch(epoch);
  PassEvent pass = pass_event();
  pass.reported = false;
  pass.figures.clear();
  observer->pass(pass);
  EXPECT_EQ(text_of("metrics.jsonl"),
            kStart + R"({"event":"step","step":3,"learning_rate":0.1,"elapsed_seconds":1.5})"
                     "\n"
                     R"({"event":"epoch","epoch":1,"step":4,"images_per_second":100.0,"seconds":2.0,"resident_bytes":1024,)"
                     R"("elapsed_seconds":2.5})"
                     "\n"
                     R"({"event":"pass","graph":"validate","epoch":1.0,"step":4,"samples":130,"images_per_second":260.0,)"
                     R"("seconds":0.5,"elapsed_seconds":3.0})"
                     "\n");
}

TEST_F(MetricsObserverTest, ARequestThatWasCompletedIsALine) {
  const auto observer = make("metrics");
  observer->start(start_event(), control_);
  RequestEvent request;
  request.kind = RequestKind::rate_factor;
  request.by = "observer page";
  request.factor = 0.5;
  observer->request(request);
  request.state = RequestEvent::State::completed;
  request.step = 4;
  observer->request(request);
  request.kind = RequestKind::stop;
  observer->request(request);
  observer->end(end_event(15));
  EXPECT_EQ(text_of("metrics.jsonl"),
            kStart +
                R"({"event":"request","request":"rate_factor","by":"observer page","step":4,"factor":0.5,"elapsed_seconds":0.0})"
                "\n"
                R"({"event":"end","epoch":2.0,"step":8,"bad_samples":1,"signal":15,"elapsed_seconds":4.0})"
                "\n");
}

TEST_F(MetricsObserverTest, AStopWithAReasonIsALine) {
  const auto observer = make("metrics");
  observer->start(start_event(), control_);
  RequestEvent request;
  request.by = "[stop]";
  request.state = RequestEvent::State::completed;
  request.step = 70;
  request.text = "stop.max_steps";
  observer->request(request);
  EXPECT_EQ(text_of("metrics.jsonl"),
            kStart + R"({"event":"request","request":"stop","by":"[stop]","step":70,"text":"stop.max_steps",)"
                     R"("elapsed_seconds":0.0})"
                     "\n");
}

TEST_F(MetricsObserverTest, ARunThatGoesOnAppendsAndSaysWhichLinesCountNoMore) {
  {
    const auto observer = make("metrics");
    observer->start(start_event(), control_);
    CheckpointEvent checkpoint;
    checkpoint.step = 2;
    checkpoint.path = "runs/step-000000002";
    checkpoint.stood_still_seconds = 0.25;
    checkpoint.seconds = 0.5;
    checkpoint.bytes = 1000;
    checkpoint.elapsed_seconds = 1;
    observer->checkpoint(checkpoint);
  }
  RunStart resumed = start_event();
  resumed.resumed = true;
  resumed.first_step = 3;
  resumed.checkpoint_step = 2;
  make("metrics")->start(resumed, control_);
  EXPECT_EQ(text_of("metrics.jsonl"),
            kStart + R"({"event":"checkpoint","step":2,"path":"runs/step-000000002","best":false,"stood_still_seconds":0.25,)"
                     R"("seconds":0.5,"bytes":1000,"elapsed_seconds":1.0})"
                     "\n"
                     R"({"event":"resume","step":2,"name":"quickstart","file":"quickstart.toml","seed":1,"epochs":2.0,)"
                     R"("first_step":3,"steps":8,"replicas":1,"elapsed_seconds":0.5})"
                     "\n");
}

TEST_F(MetricsObserverTest, WritesToStandardOutputTooWhereItIsAsked) {
  const auto observer = make("metrics", Value(Table{{"standard_output", {}, Value(true)}}));
  RunStart start = start_event();
  start.folder.clear();
  testing::internal::CaptureStdout();
  observer->start(start, control_);
  EXPECT_EQ(testing::internal::GetCapturedStdout(), kStart);
  EXPECT_TRUE(std::filesystem::is_empty(folder_));
}

TEST_F(MetricsObserverTest, AFolderThatCannotBeWrittenIsAnError) {
  RunStart start = start_event();
  start.folder = folder_ / "gone";
  EXPECT_THROW(make("metrics")->start(start, control_), Error);
}

}  // namespace
}  // namespace millrace::observer_test

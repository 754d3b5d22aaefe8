#include "millrace/util/prometheus.h"

#include <gtest/gtest.h>

#include <limits>

namespace millrace {
namespace {

RunStart run_named(const std::string& name) {
  RunStart run;
  run.name = name;
  run.folder = "runs/quickstart/2026-01-01T00-00-00";
  return run;
}

TEST(PrometheusText, TellsProgressStagesEdgesAndDevices) {
  TickEvent tick;
  tick.graph = "train";
  tick.epoch = 1.5;
  tick.epochs = 2;
  tick.step = 12;
  tick.steps = 16;
  tick.figures = {{"loss", 0.25, false, false}};
  tick.images_per_second = 412.5;
  TelemetryEvent telemetry;
  telemetry.graph = "train";
  telemetry.stages = {{.name = "decode_image", .packets = 3, .samples = 96, .busy_seconds = 0.5, .threads = {}, .service = {}},
                      {.name = "forward_backward",
                       .replica = 1,
                       .on_device = true,
                       .packets = 3,
                       .samples = 48,
                       .busy_seconds = 0.25,
                       .device_seconds = 2,
                       .threads = {},
                       .service = {}}};
  telemetry.edges = {{"decode_image", "crop", 3, 0.125, 2}};
  telemetry.devices = {{.name = "cuda:1",
                        .replica = 1,
                        .compute_seconds = 2,
                        .copy_seconds = 0.5,
                        .communication_seconds = 0.25,
                        .memory_bytes = 1024}};
  PassEvent pass;
  pass.graph = "validate";
  pass.figures = {{"accuracy", 0.5, true, true}};
  const std::string text = prometheus_text(run_named("quickstart"), true, tick, telemetry, {&pass, 1}),
                    run = "run=\"quickstart/2026-01-01T00-00-00\"";
  for (const std::string& line : {
           "# HELP millrace_images_per_second Rate of training.\n# TYPE millrace_images_per_second gauge\n"
           "millrace_images_per_second{" +
               run + "} 412.5\n",
           "millrace_running{" + run + "} 1\n",
           "millrace_metric{" + run + ",graph=\"train\",metric=\"loss\"} 0.25\n",
           "millrace_stage_samples_total{" + run +
               ",stage=\"decode_image\"} 96\n"
               "millrace_stage_samples_total{" +
               run + ",stage=\"forward_backward\",replica=\"1\"} 48\n",
           "millrace_edge_level{" + run + ",from=\"decode_image\",to=\"crop\"} 2\n",
           "millrace_device_compute_seconds_total{" + run + ",device=\"cuda:1\",replica=\"1\",rank=\"0\"} 2\n",
       }) {
    EXPECT_NE(text.find(line), std::string::npos) << line << "is missing in\n" << text;
  }
}

TEST(PrometheusText, SaysOnlyThatTheRunEndedWhereNothingElseIsKnown) {
  RunStart run;
  run.name = "quickstart";
  EXPECT_EQ(prometheus_text(run, false, {}, {}),
            "# HELP millrace_running 1 while the run goes on, 0 when it has ended.\n# TYPE millrace_running gauge\n"
            "millrace_running{run=\"quickstart\"} 0\n");
}

// Readers refuse a text with an incomplete line or a duplicate sample.
TEST(PrometheusText, StaysReadableWhateverNamesAndValuesThereAre) {
  TickEvent tick;
  tick.graph = "train";
  tick.figures = {{"loss", std::numeric_limits<double>::quiet_NaN(), false, false},
                  {"a \"b\"\\\n\xff", std::numeric_limits<double>::infinity(), false, false}};
  TelemetryEvent telemetry;
  telemetry.graph = "train";
  telemetry.edges = {{"a", "b", 3, 0, 1}, {"a", "b", 4, 0, 1}};
  RunStart run;
  run.name = "r\"1\"";
  const std::string text = prometheus_text(run, true, tick, telemetry), label = R"(run="r\"1\"")";
  EXPECT_NE(text.find("millrace_metric{" + label + ",graph=\"train\",metric=\"loss\"} NaN\n"), std::string::npos) << text;
  EXPECT_NE(text.find("millrace_metric{" + label +
                      R"(,graph="train",metric="a \"b\"\\\n\\xff"} +Inf)"
                      "\n"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("millrace_edge_packets_total{" + label + ",from=\"a\",to=\"b\"} 7\n"), std::string::npos) << text;
}

}  // namespace
}  // namespace millrace

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "screen.h"

namespace millrace::top {
namespace {

std::size_t characters(const std::string& text) {
  return static_cast<std::size_t>(std::ranges::count_if(text, [](char c) { return (c & 0xc0) != 0x80; }));
}
std::size_t count_of(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + part.size())) ++count;
  return count;
}

TEST(Braille, SetsTheDotThatIsMeant) {
  Braille dots(2, 1);
  dots.dot(0, 0);
  dots.dot(3, 3);
  dots.dot(4, 0);  // outside
  EXPECT_EQ(dots.rows(), std::vector<std::string>{"⡀⠈"});
}

Screen busy_screen() {
  Screen screen;
  RunStart start;
  start.name = "a\x1b[2J\nrun";
  start.steps = 500;
  screen.begin(start);
  TickEvent tick;
  tick.graph = "train";
  tick.epoch = 1.5;
  tick.epochs = 3;
  tick.step = 250;
  tick.steps = 500;
  tick.figures = {{"loss", 0.5, false, false}, {"accuracy", 0.75, true, true}};
  tick.seconds_left = 60;
  for (std::uint64_t i = 1; i <= 250; ++i) {
    StepEvent step;
    step.step = i;
    step.figures = {{"loss", std::exp(-static_cast<double>(i) / 90), false, false},
                    {"accuracy", 0.003 * static_cast<double>(i), true, true}};
    screen.add(step);
  }
  screen.add(tick);
  TelemetryEvent telemetry;
  telemetry.graph = "train";
  telemetry.bottleneck = "decode_image 61 %, device idle 40 %";
  for (int i = 0; i < 40; ++i) telemetry.stages.emplace_back().name = "stage_with_a_very_long_name_" + std::to_string(i);
  screen.add(telemetry);
  for (int i = 0; i < 100; ++i)
    screen.say("a message that is rather long, as messages of programs at times tend to be, and then some more");
  return screen;
}

TEST(Screen, FitsEveryTerminal) {
  const Screen screen = busy_screen();
  for (const std::size_t columns : {0, 1, 20, 40, 79, 80, 200}) {  // none: the last column of a one-column terminal stays free
    for (const std::size_t rows : {0, 1, 5, 24, 60}) {
      const std::vector<std::string> lines = screen.lines(columns, rows, false);
      EXPECT_LE(lines.size(), rows);
      for (const std::string& line : lines) EXPECT_LE(characters(line), columns) << line;
    }
  }
}

TEST(Screen, KeepsQueuesAndWholeFiguresInANarrowTerminal) {
  Screen screen;
  TickEvent tick;
  tick.images_per_second = 658;
  tick.figures = {{"loss", 1.589, false, false}, {"accuracy", 0.412, true, true}, {"top5", 0.894, true, true}};
  tick.waits_for = "forward_backward 91 %, device idle 4 %";
  screen.add(tick);
  StepEvent step;
  step.scalars = {{"learning_rate", 0.09748}};
  screen.add(step);
  TelemetryEvent telemetry;
  telemetry.devices.resize(1);
  StageTelemetry& stage = telemetry.stages.emplace_back();
  stage.name = "forward_backward";
  stage.replica = 0;
  telemetry.edges = {{.from = "batch", .to = "forward_backward", .level = 3}};
  screen.add(telemetry);
  const std::vector<std::string> lines = screen.lines(59, 24, false);
  EXPECT_EQ(lines[1], "658 images/s  loss 1.589  accuracy 41.2 %  top5 89.4 %");
  ASSERT_GT(lines.size(), 3U);
  EXPECT_TRUE(lines[3].starts_with("forward_backward  ") && lines[3].ends_with(" 3")) << lines[3];
}

TEST(Screen, ShowsADevicesOwnRateInWhateverOrderRanksReport) {
  Screen screen;
  TelemetryEvent telemetry;
  telemetry.graph = "train";
  telemetry.seconds = 100;
  telemetry.devices = {{.name = "cuda:0", .rank = 0, .compute_seconds = 80},
                       {.name = "cuda:1", .rank = 1, .compute_seconds = 20}};
  screen.add(telemetry);
  telemetry.seconds = 200;
  telemetry.devices = {{.name = "cuda:1", .rank = 1, .compute_seconds = 50},
                       {.name = "cuda:0", .rank = 0, .compute_seconds = 170}};
  screen.add(telemetry);
  std::string text;
  for (const std::string& line : screen.lines(80, 24, false)) {
    if (line.starts_with("device ")) text += line.substr(0, 13) + line.substr(line.size() - 5) + "\n";
  }
  EXPECT_EQ(text, "device cuda:1 30 %\ndevice cuda:0 90 %\n");
}

// Each of the four is two columns wide, and the accent has no width.
TEST(Screen, CountsTheColumnsOfWideCharacters) {
  Screen screen;
  screen.say(
      "朴素训练"
      "e\xcc\x81"
      "x");
  for (const auto& [columns, wide, rest] : {std::tuple{10UL, 4U, 1U}, {9UL, 4U, 0U}, {8UL, 4U, 0U}, {7UL, 3U, 0U}}) {
    const std::string line = screen.lines(columns, 24, false).back();
    EXPECT_EQ(count_of(line, "朴") + count_of(line, "素") + count_of(line, "训") + count_of(line, "练"), wide) << line;
    EXPECT_EQ(count_of(line, "x"), rest) << line;
  }
}

TEST(Screen, ShowsCurvesStagesAndWhatBoundsTheRun) {
  std::string text;
  for (const std::string& line : busy_screen().lines(100, 80, false)) text += line + "\n";
  for (const char* part : {"epoch 2/3", "step 250/500", "loss", "accuracy 75.0 %", "1 min 00 s left", "stage_with_a_very_lo",
                           "waits for: decode_image", "⣀"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
  }
  EXPECT_EQ(text.find('\x1b'), std::string::npos);  // the run's name cannot control the terminal
}

}  // namespace
}  // namespace millrace::top

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "braille.h"
#include "screen.h"

namespace millrace::top {
namespace {

std::size_t characters(const std::string& text) {
  return static_cast<std::size_t>(std::ranges::count_if(text, [](char c) { return (c & 0xc0) != 0x80; }));
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
  for (const std::size_t columns : {1, 20, 40, 79, 80, 200}) {
    for (const std::size_t rows : {1, 5, 24, 60}) {
      const std::vector<std::string> lines = screen.lines(columns, rows, false);
      EXPECT_LE(lines.size(), rows);
      for (const std::string& line : lines) EXPECT_LE(characters(line), columns) << line;
    }
  }
}

TEST(Screen, ShowsCurvesStagesAndWhatBoundsTheRun) {
  std::string text;
  for (const std::string& line : busy_screen().lines(100, 80, false)) text += line + "\n";
  for (const char* part : {"epoch 2/3", "step 250/500", "loss", "accuracy 75.0 %", "1 min 00 s left", "stage_with_a_very_lo",
                           "bound by decode_image", "⣀"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
  }
  EXPECT_EQ(text.find('\x1b'), std::string::npos);  // the run's name controls no terminal
}

}  // namespace
}  // namespace millrace::top

#include "run/card.h"

#include <gtest/gtest.h>

#include "testkit/messages.h"

namespace millrace {
namespace {

TEST(Card, TakesNamesForNothingButText) {
  EXPECT_EQ(markdown_text("a|b\n# [x](javascript:1) <img>"), "a\\|b\\\\x0a\\# \\[x\\]\\(javascript\\:1\\) \\<img\\>");
  EXPECT_EQ(code_block("toml", "name = \"```\""), "````toml\nname = \"```\"\n````\n");
}

TEST(Card, CountsTheStepsThatTheRunHasDone) {
  Ended result;
  result.step = 48;
  EXPECT_EQ(steps_text(result, 16), "48: 3 epochs");
  result.first_step = 16;  // --from 2
  EXPECT_MESSAGE(steps_text(result, 16));
}

TEST(Card, SaysWhichWeightsAFigureIsOf) {
  Ended result;
  result.step = 48;
  result.measured.last["validate"] = {48, {{"loss", 0.5, false, false}}};
  EXPECT_EQ(figures_table(result, "best.safetensors"),
            "| figure | value | weights |\n|---|---:|---|\n"
            "| validate\\.loss | 0.5 | of step 48, the last\\: weights\\.safetensors |\n");
  result.best_found = Best{"validate.accuracy", 32, 0.75};
  result.measured.best["test"] = {32, {{"accuracy", 0.25, true, true}}};
  EXPECT_NE(figures_table(result, "best.safetensors")
                .find("| test\\.accuracy | 25.00 % | of step 32, the best\\: best\\.safetensors |\n"),
            std::string::npos);
  result.measured.last["validate"].figures.push_back({"accuracy", 0.5, true, true});
  result.measured.best.clear();  // by a process that was stopped before this one
  EXPECT_NE(figures_table(result, "best.safetensors")
                .find("| validate\\.accuracy | 75.00 % | of step 32, the best\\: best\\.safetensors |\n"),
            std::string::npos);
}

// No pass has it.
TEST(Card, NamesABestFigureOfTheTraining) {
  Ended result;
  result.step = 48;
  result.measured.last["validate"] = {48, {{"loss", 0.5, false, false}}};
  result.best_found = Best{"train.loss", 48, 0.25};
  EXPECT_NE(figures_table(result, "best.safetensors").find("| train\\.loss | 0.25 | of step 48, "), std::string::npos)
      << figures_table(result, "best.safetensors");
}

TEST(Card, SaysSinceWhenAnotherValueHolds) {
  EXPECT_EQ(changes_table({}, 16), "");
  EXPECT_EQ(changes_table({{"run.epochs", "3", "8"}, {"stop.after", "", "9"}}, 16),
            "| key | until step 16 | since then |\n|---|---|---|\n| run\\.epochs | 3 | 8 |\n| stop\\.after | not set | 9 |\n");
}

TEST(Card, TellsTimesInUtc) { EXPECT_EQ(utc_text(1'000'000'000), "2001-09-09T01:46:40Z"); }

}  // namespace
}  // namespace millrace

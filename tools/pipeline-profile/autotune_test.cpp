#include "autotune.h"

#include <gtest/gtest.h>

#include "calibration_fixture.h"

namespace millrace {
namespace {

// The device limits it to 2500 images per second, which takes five threads.
TEST(Autotune, ProposesTheCheapestSettingsThatAreAsGoodAsTheBest) {
  const Calibration measured = profile_test::calibration();
  const std::vector<Candidate> found = candidates(measured, Predictor(measured), 4);
  ASSERT_GE(found.size(), 2U);
  EXPECT_EQ(found[0].settings, settings_of(measured.facts));
  EXPECT_NEAR(found[1].predicted, 2500, 125);
  EXPECT_EQ(found[1].settings.threads, 6);  // among 1, 3, 6, 7, 8
  EXPECT_EQ(found[1].settings.io_threads, 1);
}

Tuned tuned() {
  Tuned tuned;
  tuned.facts = profile_test::facts();
  tuned.before = tuned.after = settings_of(tuned.facts);
  tuned.after.threads = 7;
  tuned.rate_before = 1000;
  tuned.rate_after = 2490;
  Settings too_late = tuned.before;
  too_late.buffers = 6;
  tuned.tried = {{tuned.before, 1000, 1000}, {tuned.after, 2500, 2490}, {too_late, 2400, 0}};
  return tuned;
}

// Includes the values of --set: the settings were tried with them.
TEST(Autotune, WritesEachKeyWithItsReason) {
  EXPECT_EQ(autotune_toml(tuned(), "my \"photos\".toml", {"data.path=photos", "run.seed=3"}),
            "# Chosen by pipeline-profile --autotune on 7 cores: 2 settings were tried.\n"
            "# run.threads: was 2; with all changes 2490 images/s instead of 1000\n"
            "# run.io_threads: as before: none of 1 settings gained 2 %\n"
            "# run.chunk: as before: none of 1 settings gained 2 %\n"
            "# train.batch.buffers: as before: none of 1 settings gained 2 %\n"
            "extends = \"my \\\"photos\\\".toml\"\n"
            "\n"
            "[data]\n"
            "path = \"photos\"\n"
            "\n"
            "[run]\n"
            "seed = 3\n"
            "threads = 7\n"
            "io_threads = 2\n"
            "chunk = \"auto\"\n"
            "\n"
            "[train.batch]\n"
            "buffers = 3\n");
}

TEST(Autotune, SaysThatNothingWasTriedWhereTheTimeDidNotSuffice) {
  Tuned hurried = tuned();
  hurried.tried[1].measured = 0;
  EXPECT_FALSE(hurried.has_compared());
  const std::string text = autotune_text(hurried);
  EXPECT_NE(text.find("nothing was tried: "), std::string::npos) << text;
  EXPECT_EQ(text.find("gained 2 %"), std::string::npos) << text;
}

}  // namespace
}  // namespace millrace

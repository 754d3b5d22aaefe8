#include "autotune.h"

#include <gtest/gtest.h>

#include "calibration_fixture.h"

namespace millrace {
namespace {

// The device bounds it at 2500 images a second, which takes five threads.
TEST(Autotune, ProposesTheCheapestSettingsThatAreAsGoodAsTheBest) {
  const Calibration measured = profile_test::calibration();
  const std::vector<Candidate> found = candidates(measured, Predictor(measured), 4);
  ASSERT_GE(found.size(), 2U);
  EXPECT_EQ(found[0].settings, settings_of(measured.facts));
  EXPECT_NEAR(found[1].predicted, 2500, 125);
  EXPECT_EQ(found[1].settings.threads, 7);  // of 1, 4, 7, 8, 9
  EXPECT_EQ(found[1].settings.io_threads, 1);
}

TEST(Autotune, WritesEachKeyWithItsReason) {
  Tuned tuned;
  tuned.facts = profile_test::facts();
  tuned.before = tuned.after = settings_of(tuned.facts);
  tuned.after.threads = 7;
  tuned.rate_before = 1000;
  tuned.rate_after = 2490;
  tuned.tried = {{tuned.before, 1000, 1000}, {tuned.after, 2500, 2490}};
  EXPECT_EQ(autotune_toml(tuned, "photos.toml"),
            "# Chosen by pipeline-profile --autotune on 8 cores: 2 settings were tried.\n"
            "extends = \"photos.toml\"\n"
            "\n"
            "[run]\n"
            "# was 2; with all changes 2490 images/s instead of 1000\n"
            "threads = 7\n"
            "# as before: no other value gained 2 %\n"
            "io_threads = 2\n"
            "# as before: no other value gained 2 %\n"
            "chunk = \"auto\"\n"
            "\n"
            "[train.batch]\n"
            "# as before: no other value gained 2 %\n"
            "buffers = 3\n");
}

}  // namespace
}  // namespace millrace

#include "trial_progress.h"

#include <gtest/gtest.h>

#include <functional>

#include "screen_watch.h"
#include "testkit/messages.h"

namespace millrace {
namespace {

std::string said(const std::function<void()>& work) {
  testing::internal::CaptureStderr();
  work();
  return testing::internal::GetCapturedStderr();
}

TEST(TrialProgress, WritesLinesThatStayWhereThereIsNoTerminal) {
  EXPECT_EQ(said([] {
              TrialProgress progress({.terminal = false});
              progress.show("step 1/100");
              progress.show("step 2/100");
            }),
            "step 1/100\nstep 2/100\n");
}

TEST(TrialProgress, TakesItsLineOffATerminal) {
  EXPECT_EQ(said([] {
              TrialProgress progress({.terminal = true});
              progress.show("step 1/100");
              progress.show("step 2/100");
              progress.close();
            }),
            "\r\x1b[Kstep 1/100\r\x1b[Kstep 2/100\r\x1b[K");
}

TEST(ScreenWatch, PrintsWarningsOnceTheScreenHasFailed) {
  EXPECT_MESSAGE(said([] {
    ScreenWatch watch;
    for (const char* text : {"early", "observer 'top' failed, and receives no further events: no room", "late"}) {
      watch.warning({text});
    }
  }));
}

TEST(TrialProgress, IsDueNowAndThen) {
  TrialProgress often({.period = std::chrono::milliseconds(0)}), seldom({.period = std::chrono::hours(1)});
  EXPECT_TRUE(often.due());
  EXPECT_FALSE(seldom.due());
}

}  // namespace
}  // namespace millrace

#include "stop_signal.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <string>
#include <thread>
#include <vector>

#include "common/second_signal.h"
#include "testkit/apart.h"

namespace millrace {
namespace {

// The fate of a program that gets these signals at this interval: "it works on", with the request, or how it ended.
std::string fate_of_a_program(const std::vector<int>& signals, std::chrono::milliseconds apart) {
  const testkit::Ended ended = testkit::run_apart(
      [&] {
        install_signal_handlers();
        for (std::size_t i = 0; i < signals.size(); ++i) {
          if (i > 0) std::this_thread::sleep_for(apart);
          std::raise(signals[i]);
        }
        return fmt::format("it works on; asked to stop by signal {}", stop_signal.load());
      },
      60);
  return ended.fate.empty() ? ended.result : ended.fate;
}

// If the machine pauses the program between two signals, they become two requests: then it tries again.
TEST(StopSignal, TheSameOneAgainAtOnceIsTheSameRequest) {
  const std::string works_on = "it works on; asked to stop by signal 2";
  std::string fate;
  for (int attempt = 0; attempt < 20; ++attempt) {
    const auto begin = std::chrono::steady_clock::now();
    fate = fate_of_a_program({SIGINT, SIGINT, SIGINT}, std::chrono::milliseconds(0));
    if (fate == works_on || std::chrono::steady_clock::now() - begin < kSameRequest) break;
  }
  EXPECT_EQ(fate, works_on);
}

TEST(StopSignal, ASecondOneEndsTheProgramAndSaysSo) {
  const std::string said = ": pipeline-data: stopped at once by a second signal; nothing more was saved";
  EXPECT_EQ(fate_of_a_program({SIGINT, SIGINT}, std::chrono::milliseconds(250)), "ended with signal 2 (Interrupt)" + said);
  EXPECT_EQ(fate_of_a_program({SIGINT, SIGTERM}, std::chrono::milliseconds(0)), "ended with signal 15 (Terminated)" + said);
}

}  // namespace
}  // namespace millrace

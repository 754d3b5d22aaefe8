#include "common/started_ranks.h"

#include <gtest/gtest.h>

#include <unistd.h>
#include <chrono>
#include <csignal>

#include "testkit/files.h"
#include "testkit/messages.h"

namespace millrace {
namespace {

// Rank 0's message when another rank runs `other` instead of meeting it; and the signal that end() returns.
std::pair<std::string, int> said_after(void (*other)()) {
  RankWishes wishes;
  StartedRanks started(3, wishes);
  if (started.place().rank == 1) other();
  if (started.place().rank == 2) ::sleep(60);  // ended together with the others
  if (started.place().rank != 0) ::_exit(0);
  const Error error = testkit::error_of([&] { join_ranks(started.place(), wishes, {}, true); });
  EXPECT_EQ(error.kind(), ErrorKind::peer);
  return {error.message(), started.end(0)};
}

TEST(StartedRanks, OneThatEndsBeforeTheyHaveMetIsNoticedAtOnce) {
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_MESSAGE(said_after([] { ::raise(SIGKILL); }).first);
  EXPECT_MESSAGE(said_after([] { ::_exit(3); }).first);
  const auto stopped = said_after([] { ::_exit(128 + SIGTERM); });
  EXPECT_MESSAGE(stopped.first);
  EXPECT_EQ(stopped.second, SIGTERM);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(30));
}

}  // namespace
}  // namespace millrace

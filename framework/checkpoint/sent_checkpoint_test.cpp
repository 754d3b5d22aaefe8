// Two ranks, as threads of this process, that share no disk.
#include "checkpoint/resume.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <array>
#include <thread>

#include "checkpoint/checkpoint_fixture.h"
#include "ranks/socket_group.h"

namespace millrace::checkpoint_test {
namespace {

// The second rank's checkpoint afterwards.
Checkpoint sent(const Checkpoint& first, std::optional<Checkpoint> second) {
  std::array<int, 2> pair{};
  EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, pair.data()), 0);
  std::optional<Checkpoint> here = first;
  const auto join = [&](int rank, std::optional<Checkpoint>& checkpoint) {
    SocketGroup group(
        {.rank = rank, .sockets = rank == 0 ? std::vector{-1, pair[0]} : std::vector{pair[1], -1}, .hosts = {"a", "b"}});
    send_where_missing(checkpoint, group);
    group.barrier(Group::kRun);
  };
  std::thread other([&] { join(1, second); });
  join(0, here);
  other.join();
  return second.value();
}

void expect_equal(const Checkpoint& found, const Checkpoint& expected) {
  EXPECT_EQ(to_json(found.state), to_json(expected.state));
  EXPECT_EQ(found.pipeline, expected.pipeline);
  ASSERT_EQ(found.tensors.size(), expected.tensors.size());
  for (const NamedTensor& tensor : expected.tensors) {
    const auto at = std::ranges::find(found.tensors, tensor.name, &NamedTensor::name);
    ASSERT_NE(at, found.tensors.end()) << tensor.name;
    EXPECT_EQ(at->values, tensor.values) << tensor.name;
  }
}

TEST(SentCheckpoint, ComesToARankThatHasNone) { expect_equal(sent(checkpoint_at(7), std::nullopt), checkpoint_at(7)); }

// The run went back and trained again after its folder was copied to the other machine.
TEST(SentCheckpoint, ReplacesAnotherOneOfTheSameStep) {
  Checkpoint earlier = checkpoint_at(7);
  earlier.tensors[0].values[2] += 1;
  expect_equal(sent(checkpoint_at(7), earlier), checkpoint_at(7));
}

}  // namespace
}  // namespace millrace::checkpoint_test

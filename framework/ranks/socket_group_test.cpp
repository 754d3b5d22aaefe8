// Processes that communicate over sockets, here as groups in one process.
#include "ranks/socket_group.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <tuple>

#include "millrace/error.h"
#include "ranks/group_all_gather.h"
#include "testkit/few_addresses.h"
#include "testkit/files.h"
#include "testkit/messages.h"

namespace millrace {
namespace {

std::vector<std::byte> bytes_of(std::string_view text) {
  const auto* first = reinterpret_cast<const std::byte*>(text.data());
  return {first, first + text.size()};
}
std::string text_of(const std::vector<std::byte>& bytes) { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }

// Three ranks, connected pairwise.
class SocketGroupTest : public testing::Test {
 protected:
  static constexpr int kRanks = 3;
  SocketGroupTest() { renew(); }
  void renew() {
    groups_.clear();
    std::vector<std::vector<int>> ends(kRanks, std::vector<int>(kRanks, -1));
    for (std::size_t low = 0; low < kRanks; ++low) {
      for (std::size_t high = low + 1; high < kRanks; ++high) {
        std::array<int, 2> pair{};
        EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, pair.data()), 0);
        ends[low][high] = pair[0];
        ends[high][low] = pair[1];
      }
    }
    for (int rank = 0; rank < kRanks; ++rank) {
      SocketGroup::Setting setting;
      setting.rank = rank;
      setting.sockets = ends[static_cast<std::size_t>(rank)];
      setting.hosts = {"a", "b", "c"};
      groups_.push_back(std::make_unique<SocketGroup>(std::move(setting)));
    }
  }
  // Calls use(rank) on a thread for each rank.
  template <class Use>
  void on_all(const Use& use) {
    std::vector<std::thread> threads;
    for (int rank = 0; rank < kRanks; ++rank) threads.emplace_back([&use, rank] { use(rank); });
    for (std::thread& thread : threads) thread.join();
  }
  SocketGroup& group(int rank) { return *groups_[static_cast<std::size_t>(rank)]; }
  std::vector<std::unique_ptr<SocketGroup>> groups_;
};

std::string message_of(const std::function<void()>& call) {
  return testkit::error_of(ErrorKind::peer, [&] { call(); }).message();
}

TEST_F(SocketGroupTest, GathersByRankAndBroadcasts) {
  on_all([&](int rank) {
    for (int round = 0; round < 50; ++round) {
      const auto all = group(rank).all_gather(7, bytes_of(std::string(static_cast<std::size_t>(rank * 100), 'x')));
      ASSERT_EQ(all.size(), 3U);
      for (std::size_t r = 0; r < 3; ++r) EXPECT_EQ(all[r].size(), r * 100);
      std::vector<std::byte> told = bytes_of(rank == 1 ? "from one" : "");
      group(rank).broadcast(7, 1, told);
      EXPECT_EQ(text_of(told), "from one");
      group(rank).barrier(7);
    }
  });
}

TEST_F(SocketGroupTest, ChannelsDoNotMeet) {
  group(0).send(1, 1, bytes_of("first of one"));
  group(0).send(1, 2, bytes_of("first of two"));
  group(0).send(1, 1, bytes_of("second of one"));
  std::vector<std::byte> got;
  group(1).receive(0, 2, got);
  EXPECT_EQ(text_of(got), "first of two");
  group(1).receive(0, 1, got);
  EXPECT_EQ(text_of(got), "first of one");
  group(1).receive(0, 1, got);
  EXPECT_EQ(text_of(got), "second of one");
}

TEST_F(SocketGroupTest, SendsMoreThanSocketsHoldWhileNobodyReceives) {
  const std::vector<std::byte> large(std::size_t{16} << 20, std::byte{7});
  on_all([&](int rank) {
    const auto all = group(rank).all_gather(3, large);
    for (const auto& each : all) EXPECT_TRUE(each == large);
  });
}

TEST_F(SocketGroupTest, WhoLeavesInGoodOrderHarmsNobodyWhoDoesNotNeedIt) {
  group(2).send(0, 5, bytes_of("last words"));
  group(2).leave(nullptr);
  std::vector<std::byte> got;
  group(0).receive(2, 5, got);
  EXPECT_EQ(text_of(got), "last words");
  group(0).send(1, 5, bytes_of("still here"));
  group(1).receive(0, 5, got);
  EXPECT_EQ(text_of(got), "still here");
  EXPECT_MESSAGE(message_of([&] { group(0).receive(2, 5, got); }));
}

TEST_F(SocketGroupTest, WhoLeavesWithAReasonEndsAll) {
  std::thread waits([&] {
    std::vector<std::byte> got;
    EXPECT_EQ(message_of([&] { group(0).receive(1, 5, got); }), "rank 2 of 3 on c is lost: it has ended: no data");
  });
  const Error broken(ErrorKind::device, "no data");
  group(2).leave(&broken);
  waits.join();
  std::vector<std::byte> got;
  EXPECT_MESSAGE(message_of([&] { group(2).receive(0, 5, got); }));
}

// Whether a process waits for it or for another, and if it is gone before any message to it.
TEST_F(SocketGroupTest, AMistakeOfOneIsTheMistakeOfAll) {
  const auto expect_mistake = [](const std::function<void()>& call) {
    const Error error = testkit::error_of(ErrorKind::usage, [&] {
      for (int i = 0; i < 1000; ++i) call();
    });
    EXPECT_TRUE(std::string_view(error.what()).starts_with("rank 2 of 3 on c has ended: a.toml:3: unknown key")) << error.what();
  };
  const Error mistake(ErrorKind::usage, "a.toml:3: unknown key");
  group(2).leave(&mistake);
  groups_[2].reset();
  std::vector<std::byte> got;
  expect_mistake([&] { group(1).send(2, 5, bytes_of("are you there?")); });
  const Error end(ErrorKind::usage, "rank 2 of 3 on c has ended: a.toml:3: unknown key");
  group(1).leave(&end);
  expect_mistake([&] { group(0).receive(1, 5, got); });
}

// A new start would repeat a bad sample, non-finite values or a full disk; code 75 requests a retry. Another machine may have
// enough memory.
TEST_F(SocketGroupTest, AnErrorOfOneEndsAllWithItsCode) {
  const std::tuple<ErrorKind, const char*, ErrorKind> errors[] = {
      {ErrorKind::content, "sample 'a.jpg': it is no JPEG file", ErrorKind::data},
      {ErrorKind::run, "step 3: loss is nan", ErrorKind::run},
      {ErrorKind::unreachable, "cannot read 's3://photos/a.jpg'", ErrorKind::unreachable},
      {ErrorKind::storage, "cannot write 'labels.png': No space left on device", ErrorKind::storage},
      {ErrorKind::run, "stage 'batch': out of memory: 3 GiB are planned", ErrorKind::peer}};
  for (const auto& [kind, text, expected] : errors) {
    SCOPED_TRACE(text);
    renew();
    const Error error(kind, text);
    group(2).leave(&error);
    const auto end_of = [&](int rank, int peer) {
      std::vector<std::byte> got;
      try {
        group(rank).receive(peer, 5, got);
      } catch (const Error& caught) {
        return caught;
      }
      return Error(ErrorKind::interrupted, "nothing was thrown");
    };
    const Error end = end_of(1, 2);
    EXPECT_EQ(end.kind(), expected);
    EXPECT_TRUE(std::string_view(end.what()).ends_with(fmt::format("has ended: {}", text))) << end.what();
    group(1).leave(&end);
    EXPECT_EQ(end_of(0, 1).kind(), expected);
  }
}

TEST_F(SocketGroupTest, AllNameTheOneThatWasLostFirst) {
  const Error broken(ErrorKind::device, "no data"), lost(ErrorKind::peer, "rank 2 of 3 on c is lost, as it says outside");
  group(2).leave(&broken);
  std::vector<std::byte> got;
  EXPECT_MESSAGE(message_of([&] { group(1).receive(2, 5, got); }));
  group(1).leave(&lost);
  const std::string said = message_of([&] { group(0).receive(1, 5, got); });  // by it, or by rank 1, whichever is read first
  EXPECT_MESSAGE(said);
}

TEST_F(SocketGroupTest, MeetingsGatherFromReplicasOfAllProcessesInTheirOrder) {
  on_all([&](int rank) {  // rank r has r + 1 replicas
    const std::size_t here = static_cast<std::size_t>(rank) + 1, first = here * (here - 1) / 2;
    GroupAllGather meeting(first, here, 6, &group(rank));
    std::vector<std::thread> replicas;
    for (std::size_t replica = first; replica < first + here; ++replica) {
      replicas.emplace_back([&meeting, replica] {
        for (double round = 0; round < 100; ++round) {
          const std::array<double, 2> mine = {static_cast<double>(replica), round};
          std::array<double, 12> all{};
          meeting.gather(replica, mine, all);
          for (std::size_t r = 0; r < 6; ++r) {
            EXPECT_EQ(all[2 * r], static_cast<double>(r));
            EXPECT_EQ(all[2 * r + 1], round);
          }
        }
      });
    }
    for (std::thread& replica : replicas) replica.join();
  });
}

// Trying again does not help, as it may where a rank was lost.
TEST_F(SocketGroupTest, MeetingsOfDifferentNetworksAreAMistakeToMend) {
  on_all([&](int rank) {
    GroupAllGather meeting(static_cast<std::size_t>(rank), 1, 3, &group(rank));
    const std::vector<double> mine(rank == 0 ? 2 : 1);
    std::vector<double> all(3 * mine.size());
    const Error error = testkit::error_of([&] { meeting.gather(static_cast<std::size_t>(rank), mine, all); });
    EXPECT_EQ(error.kind(), ErrorKind::usage) << error.what();
  });
}

TEST(GroupAllGather, WhoWaitsForAReplicaThatHasFailedIsTold) {
  GroupAllGather meeting(0, 2, 2, nullptr);
  std::thread waits([&] {
    std::array<double, 1> mine = {1};
    std::array<double, 2> all{};
    EXPECT_THROW(meeting.gather(0, mine, all), Error);
  });
  meeting.give_up();
  waits.join();
}

TEST(SocketGroup, NamesAProcessThatIsSilent) {
  std::array<int, 2> pair{};
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, pair.data()), 0);
  SocketGroup::Setting setting;
  setting.rank = 0;
  setting.sockets = {-1, pair[0]};
  setting.hosts = {"a", "b"};
  setting.patience = std::chrono::milliseconds(200);
  SocketGroup group(std::move(setting));
  std::vector<std::byte> got;
  EXPECT_MESSAGE(message_of([&] { group.receive(1, 5, got); }));
  ::close(pair[1]);
}

// As when a process lists its files on a disk that does not respond.
TEST(SocketGroup, AWaitForAProcessThatLivesIsSaidWithWhatItDoes) {
  std::array<int, 2> pair{};
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, pair.data()), 0);
  SocketGroup::Setting setting;
  setting.rank = 1;
  setting.sockets = {pair[1], -1};
  setting.hosts = {"a", "b"};
  setting.doing = [] { return std::string("listing the samples"); };
  SocketGroup other(std::move(setting));
  std::vector<std::string> said;
  SocketGroup group({.rank = 0,
                     .sockets = {-1, pair[0]},
                     .hosts = {"a", "b"},
                     .report =
                         [&](const std::string& text) {
                           said.push_back(text);
                           if (said.size() == 2) other.send(0, Group::kRun, bytes_of("now"));
                         },
                     .report_interval = std::chrono::seconds(1)});
  std::vector<std::byte> got;
  group.receive(1, Group::kRun, got);
  EXPECT_EQ(text_of(got), "now");
  EXPECT_EQ(said, (std::vector<std::string>{"rank 0 waits for rank 1 of 2 on b, 1 s; its activity: listing the samples",
                                            "rank 0 waits for rank 1 of 2 on b, 2 s; its activity: listing the samples"}));
}

// A frozen process takes no bytes: writing to it waits no longer than the patience, and the others get signs of life meanwhile.
TEST(SocketGroup, AFrozenProcessIsNamedByAllAndNobodyElseIs) {
  std::array<std::array<int, 2>, 3> pairs{};  // 0-1, 0-2, 1-2
  for (auto& pair : pairs) ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, pair.data()), 0);
  const auto make = [](int rank, std::vector<int> sockets) {
    SocketGroup::Setting setting;
    setting.rank = rank;
    setting.sockets = std::move(sockets);
    setting.patience = std::chrono::milliseconds(1200);
    setting.hosts = {"a", "b", "c"};
    setting.doing = [] { return std::string("waiting"); };
    return std::make_unique<SocketGroup>(std::move(setting));
  };
  const auto zero = make(0, {-1, pairs[0][0], pairs[1][0]}), one = make(1, {pairs[0][1], -1, pairs[2][0]});
  std::string by_zero, by_one;
  std::thread writes([&] {
    const std::vector<std::byte> much(32U << 20U);
    by_zero = message_of([&] { zero->send(2, 5, much); });
  });
  std::vector<std::byte> got;
  by_one = message_of([&] { one->receive(0, 5, got); });
  writes.join();
  for (const std::string& text : {by_zero, by_one}) {
    EXPECT_NE(text.find("rank 2 of 3 on c is lost: it has been silent for 1.2 s"), std::string::npos) << text;
  }
  ::close(pairs[1][1]);
  ::close(pairs[2][1]);
}

// Stopped for longer than its patience, like all processes of a paused machine. When it continues, it receives nothing at first.
TEST(SocketGroup, DoesNotTakeAPauseForAProcessThatIsSilent) {
  constexpr std::chrono::milliseconds kPatience(2000);
  std::array<int, 2> pair{};
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, pair.data()), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    ::close(pair[1]);
    SocketGroup::Setting setting;
    setting.sockets = {-1, pair[0]};
    setting.hosts = {"a", "b"};
    setting.patience = kPatience;
    SocketGroup group(std::move(setting));
    std::vector<std::byte> got;
    message_of([&] { group.receive(1, 5, got); });
    ::_exit(text_of(got) == "here" ? 0 : 1);
  }
  ::close(pair[0]);
  std::array<std::byte, 16> sign{};  // its first sign of life: it listens
  EXPECT_EQ(::recv(pair[1], sign.data(), sign.size(), MSG_WAITALL), static_cast<ssize_t>(sign.size()));
  int status = 0;
  ::kill(child, SIGSTOP);
  EXPECT_EQ(::waitpid(child, &status, WUNTRACED), child);
  std::this_thread::sleep_for(kPatience + kPatience / 10);
  ::kill(child, SIGCONT);
  std::this_thread::sleep_for(kPatience / 20);
  const std::uint64_t header[] = {5, 4};  // the channel, and the number of bytes
  EXPECT_EQ(::send(pair[1], header, sizeof header, MSG_NOSIGNAL), static_cast<ssize_t>(sizeof header));
  EXPECT_EQ(::send(pair[1], "here", 4, MSG_NOSIGNAL), 4);
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  ::close(pair[1]);
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
TEST(SocketGroup, OfMoreThreadsThanTheSystemStartsIsAnErrorAndNoCrash) {
  SocketGroup::Setting setting{.sockets = {-1}, .hosts = {"a"}};
  std::vector<int> others;
  for (int rank = 1; rank < 200; ++rank) {
    std::array<int, 2> pair{};
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, pair.data()), 0);
    setting.sockets.push_back(pair[0]);
    setting.hosts.emplace_back("b");
    others.push_back(pair[1]);
  }
  std::string said;
  {
    const testkit::FewAddresses few(rlim_t{64} << 20);
    try {
      const SocketGroup group(setting);
    } catch (...) {
      said = current_error().message();
    }
  }
  EXPECT_TRUE(said.starts_with("the system cannot start another thread") || said == "out of memory") << said;
  for (const int each : others) ::close(each);
}
#endif

TEST(SocketGroup, LosesAProcessThatAnnouncesMoreThanThereIsRoomFor) {
  for (const std::uint64_t bytes : {std::uint64_t{1} << 40U, std::uint64_t{1} << 63U, ~std::uint64_t{0}}) {
    std::array<int, 2> pair{};
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, pair.data()), 0);
    SocketGroup::Setting setting;
    setting.rank = 0;
    setting.sockets = {-1, pair[0]};
    setting.hosts = {"a", "b"};
    SocketGroup group(std::move(setting));
    const std::uint64_t header[] = {5, bytes};  // the channel, and the number of bytes
    ASSERT_EQ(::send(pair[1], header, sizeof header, 0), static_cast<ssize_t>(sizeof header));
    std::vector<std::byte> got;
    EXPECT_EQ(message_of([&] { group.receive(1, 5, got); }),
              "rank 1 of 2 on b is lost: it announces a message of " + std::to_string(bytes) + " bytes, which is too large");
    ::close(pair[1]);
  }
}

TEST(SocketGroup, MakesRoomForWhatHasComeAndNotForWhatIsAnnounced) {
  const auto peak = [] {
    rusage used{};
    ::getrusage(RUSAGE_SELF, &used);
    return used.ru_maxrss;  // KiB
  };
  std::array<int, 2> pair{};
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, pair.data()), 0);
  SocketGroup::Setting setting;
  setting.rank = 0;
  setting.sockets = {-1, pair[0]};
  setting.hosts = {"a", "b"};
  SocketGroup group(std::move(setting));
  std::vector<char> sent(5'000'000);
  for (std::size_t i = 0; i < sent.size(); ++i) sent[i] = static_cast<char>(i * i >> 7);
  const auto send = [&](std::uint64_t announced) {
    const std::uint64_t header[] = {5, announced};
    ASSERT_EQ(::send(pair[1], header, sizeof header, 0), static_cast<ssize_t>(sizeof header));
    for (std::size_t at = 0; at < sent.size();) {
      const ssize_t part = ::send(pair[1], sent.data() + at, sent.size() - at, 0);
      ASSERT_GT(part, 0);
      at += static_cast<std::size_t>(part);
    }
  };
  std::vector<std::byte> got;
  for (int i = 0; i < 3; ++i) {  // the second and third reuse memory
    send(sent.size());
    group.receive(1, 5, got);
    ASSERT_EQ(got.size(), sent.size());
    EXPECT_EQ(std::memcmp(got.data(), sent.data(), sent.size()), 0);
  }
  const auto before = peak();
  send(std::uint64_t{1} << 33U);
  ::close(pair[1]);
  EXPECT_MESSAGE(message_of([&] { group.receive(1, 5, got); }));
  EXPECT_LT(peak() - before, 64 * 1024);
}

}  // namespace
}  // namespace millrace

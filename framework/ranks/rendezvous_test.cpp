// Ranks that find each other over real connections of this host, each on its own thread.
#include "ranks/rendezvous.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <thread>

#include "millrace/error.h"
#include "ranks/endpoint.h"
#include "ranks/handshake.h"
#include "ranks/socket_group.h"
#include "testkit/files.h"
#include "testkit/messages.h"

namespace millrace {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;

int free_port() { return local_endpoint(listen_at("127.0.0.1", 0)).port(); }

// The outcome of one rank.
struct Met {
  Connections connections = {};
  std::string error = {};
  ErrorKind kind = ErrorKind::run;
};

// Starts ranks, and records their messages while they wait.
class RendezvousTest : public testing::Test {
 protected:
  ~RendezvousTest() override { wait(); }
  RendezvousSetting setting(int rank, int ranks) {
    RendezvousSetting setting{.place = {.rank = rank, .ranks = ranks, .master = fmt::format("127.0.0.1:{}", port_)}};
    setting.key = "a key";
    setting.limit = seconds(20);
    setting.report = [this](const std::string& text) {
      const std::lock_guard lock(mutex_);
      said_.push_back(text);
    };
    return setting;
  }
  void start(RendezvousSetting setting) {
    Met& met = *all_.emplace_back(std::make_unique<Met>());
    threads_.emplace_back([&met, setting = std::move(setting)] {
      try {
        met.connections = connect_ranks(setting);
      } catch (const Error& error) {
        met.error = error.message();
        met.kind = error.kind();
      }
    });
  }
  // In the order of their start.
  std::vector<Met*> wait() {
    for (std::thread& each : threads_) each.join();
    threads_.clear();
    std::vector<Met*> all;
    for (const auto& each : all_) all.push_back(each.get());
    return all;
  }
  // Each rank sends every other one its rank.
  static void expect_connected(const std::vector<Met*>& all) {
    std::vector<std::unique_ptr<SocketGroup>> groups;
    for (std::size_t rank = 0; rank < all.size(); ++rank) {
      ASSERT_EQ(all[rank]->error, "") << rank;
      SocketGroup::Setting setting;
      setting.rank = static_cast<int>(rank);
      setting.sockets = all[rank]->connections.sockets;
      setting.hosts = all[rank]->connections.hosts;
      groups.push_back(std::make_unique<SocketGroup>(std::move(setting)));
    }
    std::vector<std::thread> threads;
    for (auto& group : groups) {
      threads.emplace_back([&group] {
        const auto rank = static_cast<std::byte>(group->rank());
        const auto told = group->all_gather(7, std::span(&rank, 1));
        for (std::size_t r = 0; r < told.size(); ++r) EXPECT_EQ(told[r], std::vector<std::byte>{static_cast<std::byte>(r)});
      });
    }
    for (std::thread& each : threads) each.join();
  }

  const int port_ = free_port();
  std::mutex mutex_;
  std::vector<std::string> said_;
  std::vector<std::unique_ptr<Met>> all_;
  std::vector<std::thread> threads_;
};

TEST_F(RendezvousTest, ConnectsEachRankToEachOther) {
  for (const int rank : {0, 1, 2, 3, 4}) start(setting(rank, 5));
  const std::vector<Met*> all = wait();
  expect_connected(all);
  for (const Met* each : all) EXPECT_EQ(each->connections.hosts.size(), 5U);
}

TEST_F(RendezvousTest, MeetsInAFolderThatAllShare) {
  const testkit::TestFolder folder;
  for (const int rank : {2, 1, 0}) {
    RendezvousSetting here = setting(rank, 3);
    here.place.master.clear();
    here.place.job = "42.0/x";
    here.folder = folder / "below";
    here.key.clear();  // uses the folder's key
    start(std::move(here));
    std::this_thread::sleep_for(milliseconds(50));
  }
  std::vector<Met*> all = wait();
  std::reverse(all.begin(), all.end());
  expect_connected(all);
  EXPECT_TRUE(std::filesystem::is_empty(folder / "below"));
}

TEST_F(RendezvousTest, WhoDoesNotKnowTheKeyStaysOutside) {
  RendezvousSetting stranger = setting(1, 2);
  stranger.key = "another key";
  stranger.limit = seconds(2);
  start(setting(0, 2));
  start(stranger);
  threads_.back().join();
  threads_.pop_back();
  start(setting(1, 2));
  std::vector<Met*> all = wait();
  EXPECT_TRUE(all[1]->error.ends_with(kOtherKey)) << all[1]->error;
  expect_connected({all[0], all[2]});
  const std::string last = said_.empty() ? "" : said_.back();
  EXPECT_TRUE(last.starts_with("all ranks have come; ") && last.ends_with(" from 127.0.0.1 lacked the job's key")) << last;
}

// Also if rank 0 gives up first, and refuses connections from then on.
TEST_F(RendezvousTest, WhoHasAnotherKeyIsToldSo) {
  RendezvousSetting first = setting(0, 2), other = setting(1, 2);
  other.key = "another key";
  first.limit = seconds(1);
  other.limit = seconds(3);
  start(first);
  start(other);
  const std::vector<Met*> all = wait();
  EXPECT_NE(all[0]->error.find("lacked the job's key"), std::string::npos) << all[0]->error;
  EXPECT_NE(all[1]->error.find(std::string(kOtherKey) + " ("), std::string::npos) << all[1]->error;
}

// Port scanners, web browsers, ranks of other jobs: whatever they send, or if they stay silent.
TEST_F(RendezvousTest, StrangersDisturbNobody) {
  constexpr int kStrangers = 10'000;
  start(setting(0, 3));
  const Endpoint master = numeric_endpoint("127.0.0.1", port_);
  Introduction forged;
  forged.rank = 1;
  forged.ranks = 3;
  const std::string words[] = {"", "GET / HTTP/1.1\r\n\r\n", std::string(5000, 'x'),
                               std::string(reinterpret_cast<const char*>(&forged), sizeof forged) + std::string(32, '\0'),
                               std::string(reinterpret_cast<const char*>(&forged), 40)};
  std::vector<Socket> open;
  for (int i = 0; i < kStrangers; ++i) {
    std::string why;
    Socket socket = connect_to(master, seconds(5), why);
    if (!socket) continue;
    const std::string& text = words[static_cast<std::size_t>(i) % std::size(words)];
    ::send(socket.get(), text.data(), text.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (i % 10 == 0) open.push_back(std::move(socket));  // and stays connected
    if (open.size() > 200) open.clear();
    if (i == kStrangers / 2) {
      start(setting(1, 3));
      start(setting(2, 3));
    }
  }
  expect_connected(wait());
}

// The author of the address decides where gradients are sent.
TEST_F(RendezvousTest, AnAddressThatAnotherUserHasWrittenIsNotTrusted) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give a file to another user";
  const testkit::TestFolder folder;
  const std::filesystem::path file = folder / "rank-0";
  std::ofstream(file) << "key\n" << port_ << "\n127.0.0.1\n";
  if (::chown(file.c_str(), 12345, 0) != 0) GTEST_SKIP() << "this container has no such user";
  RendezvousSetting here = setting(1, 2);
  here.place.master.clear();
  here.folder = folder.path();
  here.key.clear();
  here.limit = seconds(1);
  start(std::move(here));
  const std::string error = wait().front()->error;
  EXPECT_MESSAGE(error);
}

TEST_F(RendezvousTest, NamesTheAbsent) {
  for (const int rank : {0, 2}) {
    RendezvousSetting here = setting(rank, 4);
    here.limit = rank == 0 ? seconds(2) : seconds(1);  // this alone must not end it: it would count as absent
    start(std::move(here));
  }
  const std::vector<Met*> all = wait();
  EXPECT_MESSAGE(all[0]->error);
  EXPECT_EQ(all[0]->kind, ErrorKind::peer);
  EXPECT_MESSAGE(all[1]->error);
}

TEST_F(RendezvousTest, ARankMayBeStartedAgainBeforeAllHaveCome) {
  start(setting(0, 3));
  const Endpoint master = numeric_endpoint("127.0.0.1", port_);
  Introduction early;
  early.rank = 1;
  early.ranks = 3;
  std::string why;
  Socket first;
  while (!first) first = introduce(master, job_key("a key\n"), early, seconds(5), why);
  first = Socket();  // it dies
  for (const int rank : {1, 2}) start(setting(rank, 3));
  expect_connected(wait());
}

// The limit ends while the second one still waits for its turn.
TEST_F(RendezvousTest, TwoThatSayThatTheyAreOneRankAreNamed) {
  RendezvousSetting first = setting(0, 3);
  first.limit = seconds(3);
  start(std::move(first));
  start(setting(1, 3));
  start(setting(1, 3));
  std::this_thread::sleep_for(seconds(1));
  start(setting(2, 3));
  for (const Met* each : wait()) {
    EXPECT_NE(each->error.find("two processes claim to be rank 1"), std::string::npos) << each->error;
  }
}

TEST_F(RendezvousTest, AKeyMayHaveBlanks) {
  const testkit::TestFolder folder;
  for (const int rank : {0, 1}) {
    RendezvousSetting here = setting(rank, 2);
    here.place.master.clear();
    here.folder = folder.path();
    here.key = "two words";
    start(std::move(here));
  }
  expect_connected(wait());
}

TEST_F(RendezvousTest, RanksThatWereStartedAsOneOfDifferentSizesAreToldSo) {
  start(setting(0, 2));
  start(setting(1, 3));
  for (const Met* each : wait()) {
    EXPECT_EQ(each->kind, ErrorKind::usage);
    EXPECT_NE(each->error.find("rank 0 was started as one of 2, and "), std::string::npos) << each->error;
  }
}

TEST_F(RendezvousTest, ALossWhileRanksAreConnectedEndsAll) {
  for (const int rank : {0, 2}) start(setting(rank, 3));
  Introduction mine;
  mine.rank = 1;
  mine.ranks = 3;
  mine.port = static_cast<std::uint32_t>(free_port());
  std::string why;
  Socket first;
  while (!first) first = introduce(numeric_endpoint("127.0.0.1", port_), job_key("a key\n"), mine, seconds(5), why);
  char byte = 0;
  EXPECT_TRUE(read_all(first, &byte, 1, seconds(10)));  // part of the table: all have come
  first = Socket();
  for (const Met* each : wait()) {
    EXPECT_EQ(each->kind, ErrorKind::peer);
    EXPECT_NE(each->error.find("rank 1"), std::string::npos) << each->error;
  }
}

class AFrozenRank : public RendezvousTest, public testing::WithParamInterface<int> {};

// It freezes when all have come: its system still accepts connections at each of its addresses. Lower ranks wait for it, and
// higher ranks get no answer from it.
TEST_P(AFrozenRank, IsNamedAndNobodyElseIs) {
  const int lost = GetParam();
  for (const int rank : {0, 1, 2, 3}) {
    if (rank != lost) start(setting(rank, 4));
  }
  const Socket listener = listen_at("", 0);
  Introduction mine;
  mine.rank = lost;
  mine.ranks = 4;
  mine.port = static_cast<std::uint32_t>(local_endpoint(listener).port());
  for (std::size_t i = 0; i < 4; ++i) fmt::format_to(mine.addresses[i].data(), "127.0.0.{}", i + 2);
  std::string why;
  Socket frozen;
  while (!frozen) frozen = introduce(numeric_endpoint("127.0.0.1", port_), job_key("a key\n"), mine, seconds(5), why);
  for (const Met* each : wait()) {
    EXPECT_EQ(each->kind, ErrorKind::peer);
    const bool is_named = each->error.starts_with(fmt::format("rank {} of 4 on ", lost)) ||
                          each->error.find(fmt::format("cannot reach rank {} of 4", lost)) < 20;
    EXPECT_TRUE(is_named) << each->error;
  }
}

INSTANTIATE_TEST_SUITE_P(WhileRanksAreConnected, AFrozenRank, testing::Range(1, 4));

// Occasional bytes do not keep a place: at this pace an introduction would take ten seconds.
TEST(Reception, TurnsAwayWhoDawdles) {
  Socket listener = listen_at("127.0.0.1", 0);
  const Endpoint at = local_endpoint(listener);
  Reception reception(std::move(listener), job_key("a key"), 0);
  std::string why;
  const Socket visitor = connect_to(at, seconds(5), why);
  constexpr milliseconds kPause = milliseconds(10'000) / sizeof(Introduction);
  char byte = 'M';
  bool is_open = true;
  for (const auto began = steady_clock::now(); is_open && steady_clock::now() - began < seconds(9);) {
    std::this_thread::sleep_for(kPause);
    ::send(visitor.get(), &byte, 1, MSG_NOSIGNAL | MSG_DONTWAIT);
    reception.receive(milliseconds(50));
    is_open = ::recv(visitor.get(), &byte, 1, MSG_DONTWAIT) < 0 && errno == EAGAIN;
  }
  EXPECT_FALSE(is_open) << "after nine seconds";
}

// Shells allow fewer than a large job needs.
TEST_F(RendezvousTest, MayHaveMoreOpenFilesThanTheShellAllows) {
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const Socket next(::open("/dev/null", O_RDONLY | O_CLOEXEC));  // the lowest free number
  const rlimit few{static_cast<rlim_t>(next.get()) + 8, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &few), 0);
  for (const int rank : {0, 1, 2, 3, 4}) start(setting(rank, 5));
  const std::vector<Met*> all = wait();
  ::setrlimit(RLIMIT_NOFILE, &before);
  expect_connected(all);
}

TEST(Hmac, AgreesWithRfc4231) {
  JobKey key{};  // case 1's is 20 bytes of 0x0b: shorter keys end in zeros
  std::fill_n(key.begin(), 20, std::uint8_t{0x0b});
  const Sha256Sum sum = hmac(key, "Hi There");
  EXPECT_EQ(fmt::format("{:02x}", fmt::join(sum, "")), "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
}

TEST(Endpoint, TellsNetworksAndInterfaces) {
  EXPECT_EQ(own_addresses("lo").front(), "127.0.0.1");
  EXPECT_EQ(own_addresses("127.0.0.0/8").front(), "127.0.0.1");
  EXPECT_THROW(own_addresses("198.51.100.0/24"), Error);
  std::string why;
  EXPECT_EQ(resolve("127.0.0.1:80", why).at(0).text(), "127.0.0.1:80");
  EXPECT_EQ(resolve("[::1]:80", why).at(0).text(), "[::1]:80");
  for (const char* wrong : {"", "host", "host:", ":80", "host:0", "host:65536", "host:8x", "::1", "fd00::1:80"})
    EXPECT_THROW(resolve(wrong, why), Error) << wrong;
}

}  // namespace
}  // namespace millrace

// NCCL's communicators in two processes of a run, over a fake NCCL (fake_nccl.h).
#include "peers.h"

#include <gtest/gtest.h>

#include <new>
#include <optional>
#include <thread>

#include "communicator.h"
#include "fake_nccl.h"
#include "millrace/error.h"
#include "testkit/messages.h"

namespace millrace::cuda {
namespace {

// A process of the run: its end of a group that passes messages in memory, and a communicator with one replica.
class PairGroup final : public Group {
 public:
  struct Wire {
    std::mutex mutex;
    std::condition_variable changed;
    std::deque<std::vector<std::byte>> messages[2];  // by destination rank
    std::optional<std::string> lost;
  };
  PairGroup(std::shared_ptr<Wire> wire, int rank) : wire_(std::move(wire)), rank_(rank) {}
  int rank() const override { return rank_; }
  int size() const override { return 2; }
  void send(int to, std::uint32_t, std::span<const std::byte> bytes) override {
    const std::lock_guard lock(wire_->mutex);
    wire_->messages[to].emplace_back(bytes.begin(), bytes.end());
    wire_->changed.notify_all();
  }
  void receive(int, std::uint32_t channel, std::vector<std::byte>& into) override {
    std::unique_lock lock(wire_->mutex);
    auto& mine = wire_->messages[rank_];
    const bool waits_for_ever = channel != kGradients;
    wire_->changed.wait(lock, [&] { return wire_->lost || (!waits_for_ever && !mine.empty()); });
    if (wire_->lost) throw Error(ErrorKind::peer, *wire_->lost);
    into = std::move(mine.front());
    mine.pop_front();
  }
  void leave(const Error* why) noexcept override { lose(why == nullptr ? "" : why->what()); }
  void lose(std::string why) {
    const std::lock_guard lock(wire_->mutex);
    if (!wire_->lost) wire_->lost = std::move(why);
    wire_->changed.notify_all();
  }

 private:
  const std::shared_ptr<Wire> wire_;
  const int rank_;
};

class NcclPeersTest : public testing::Test {
 protected:
  struct Process {
    explicit Process(std::shared_ptr<PairGroup::Wire> wire, int rank) : group(std::move(wire), rank), watch(group) {}
    void connect(const NcclApi& api) {
      CommunicatorType::Setting setting{.devices = {}, .group = &group};
      setting.first_replica = static_cast<std::size_t>(group.rank());
      setting.replicas = 2;
      const NcclWorld world = nccl_world(api, setting, [this] { return watch.lost(); });
      auto lane = std::make_unique<TestLane>(group.rank());
      std::vector<std::unique_ptr<NcclLane>> lanes;
      lanes.push_back(std::move(lane));
      NcclOptions options;
      options.look = std::chrono::milliseconds(5);
      communicator = std::make_unique<NcclCommunicator>(api, std::move(lanes), world, options);
    }
    Ref<GradientBucket> add_up(float& value) {
      auto bucket = make_ref<GradientBucket>();
      bucket->data = &value;
      bucket->elements = 1;
      communicator->all_reduce({&bucket, 1});
      return bucket;
    }
    PairGroup group;
    PeerWatch watch;
    std::unique_ptr<NcclCommunicator> communicator;
  };
  template <class Call>
  static Error error_of(const Call& call) {
    try {
      call();
    } catch (const Error& error) {
      return error;
    }
    return Error(ErrorKind::run, "nothing was thrown");
  }

  FakeNccl nccl_;
  std::shared_ptr<PairGroup::Wire> wire_ = std::make_shared<PairGroup::Wire>();
  std::unique_ptr<Process> first_ = std::make_unique<Process>(wire_, 0), second_ = std::make_unique<Process>(wire_, 1);
};

TEST_F(NcclPeersTest, AddUpOverProcesses) {
  float values[] = {1, 2};
  std::thread other([&] {
    second_->connect(nccl_.api());
    second_->add_up(values[1])->ready->wait();
  });
  first_->connect(nccl_.api());
  first_->add_up(values[0])->ready->wait();
  other.join();
  EXPECT_EQ(values[0], 3);
  EXPECT_EQ(values[1], 3);
  first_->group.leave(nullptr);
}

TEST_F(NcclPeersTest, ALostProcessEndsTheSumOfTheOther) {
  float values[] = {1, 2};
  std::thread other([&] { second_->connect(nccl_.api()); });
  first_->connect(nccl_.api());
  other.join();
  const auto bucket = first_->add_up(values[0]);  // the other never joins it
  first_->group.lose("rank 1 of 2 on b is lost");
  bucket->ready->wait();
  Error error = error_of([&] { first_->communicator->check(); });
  for (int i = 0; i < 1000 && error.kind() == ErrorKind::run; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    error = error_of([&] { first_->communicator->check(); });
  }
  EXPECT_EQ(error.kind(), ErrorKind::peer);
  EXPECT_MESSAGE(error.message());
}

TEST_F(NcclPeersTest, ALossWhileDevicesConnectIsSeenAtOnce) {
  std::thread other([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    first_->group.lose("rank 1 of 2 on b is lost");
  });
  const Error error = error_of([&] { first_->connect(nccl_.api()); });  // the other never comes
  other.join();
  EXPECT_EQ(error.kind(), ErrorKind::peer);
}

// A lack of memory, say: it is no Error, and the others would wait for this process.
TEST_F(NcclPeersTest, WhateverEndsTheStartOfOneProcessEndsThatOfTheOther) {
  NcclApi api = nccl_.api();
  api.get_unique_id = [](ncclUniqueId*) -> ncclResult_t { throw std::bad_alloc(); };
  std::optional<Error> other_failed;
  std::thread other([&] { other_failed = error_of([&] { second_->connect(nccl_.api()); }); });
  CommunicatorType::Setting setting{.devices = {}, .group = &first_->group};
  setting.replicas = 2;
  EXPECT_THROW(join_processes(api, {}, setting, NcclWire::fp32), std::bad_alloc);
  other.join();
  EXPECT_EQ(other_failed->kind(), ErrorKind::peer);
  EXPECT_NE(other_failed->message(), "");
}

}  // namespace
}  // namespace millrace::cuda

// Two ranks, on threads of this process.
#include "run/step_barrier.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <array>
#include <deque>
#include <future>
#include <memory>
#include <optional>
#include <utility>

#include "ranks/socket_group.h"

namespace millrace {
namespace {

struct Rank {
  Rank(int rank, std::vector<int> sockets, bool finishes)
      : group({.rank = rank, .sockets = std::move(sockets), .hosts = {"a", "b"}}),
        requests([](const ObserverEvent&) {}),
        barrier(group, Group::kSteps, requests, false, nullptr, finishes) {
    requests.share();
    requests.give_to([this](RequestEvent request, std::uint64_t) { taken.push_back(std::move(request)); });
  }
  ~Rank() { group.leave(nullptr); }  // for which the barrier waits

  std::future<Graph::StepAgreed> ready(std::uint64_t step) {
    auto answer = std::make_shared<std::promise<Graph::StepAgreed>>();
    barrier.step_is_ready({.step = step, .weights = {}}, [answer](Graph::StepAgreed agreed) { answer->set_value(agreed); });
    return answer->get_future();
  }

  // The oldest request that was agreed on. REQUIRES: an answer came after it.
  std::optional<RequestEvent> take() {
    if (taken.empty()) return std::nullopt;
    RequestEvent request = std::move(taken.front());
    taken.pop_front();
    return request;
  }

  SocketGroup group;
  std::deque<RequestEvent> taken;
  Requests requests;
  StepBarrier barrier;
};

class StepBarrierTest : public testing::Test {
 protected:
  explicit StepBarrierTest(bool finishes = false) {
    std::array<int, 2> pair{};
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, pair.data()), 0);
    ranks_ = {std::make_unique<Rank>(0, std::vector{-1, pair[0]}, finishes),
              std::make_unique<Rank>(1, std::vector{pair[1], -1}, finishes)};
  }
  void start() {
    for (const auto& rank : ranks_) rank->barrier.start(0);
  }
  // Whether both begin it.
  std::array<bool, 2> begin(std::uint64_t step) {
    std::array<std::future<Graph::StepAgreed>, 2> answers = {ranks_[0]->ready(step), ranks_[1]->ready(step)};
    return {answers[0].get().go_on, answers[1].get().go_on};
  }
  std::array<std::unique_ptr<Rank>, 2> ranks_;
};

constexpr std::array kBoth = {true, true}, kNeither = {false, false};

// As one that is asked to stop twice.
TEST_F(StepBarrierTest, AGraphThatWasStoppedMayRunAgain) {
  start();
  EXPECT_EQ(begin(0), kBoth);
  ranks_[1]->requests.ask({.kind = RequestKind::stop, .by = "[stop]", .text = {}});
  EXPECT_EQ(begin(1), kBoth) << "the request is told with this step";
  EXPECT_EQ(begin(2), kNeither);
  for (const auto& rank : ranks_) EXPECT_TRUE(rank->take());
  start();
  EXPECT_EQ(begin(0), kBoth);
}

class FinishingBarrierTest : public StepBarrierTest {
 protected:
  FinishingBarrierTest() : StepBarrierTest(true) {}
};

TEST_F(FinishingBarrierTest, OnlyASignalBreaksAPassOff) {
  start();
  ranks_[1]->requests.ask({.kind = RequestKind::stop, .by = "[stop]", .text = {}});
  EXPECT_EQ(begin(0), kBoth) << "the request is told with this step";
  EXPECT_EQ(begin(1), kBoth);
  for (const auto& rank : ranks_) EXPECT_TRUE(rank->take());
  ranks_[0]->requests.ask({.by = "signal 2", .signal = 2, .text = {}});
  EXPECT_EQ(begin(2), kBoth);
  EXPECT_EQ(begin(3), kNeither);
}

TEST_F(StepBarrierTest, ASignalToBothIsOneRequest) {
  start();
  for (const auto& rank : ranks_) rank->requests.ask({.kind = RequestKind::stop, .by = "signal 2", .signal = 2, .text = {}});
  EXPECT_EQ(begin(0), kBoth);
  for (const auto& rank : ranks_) {
    EXPECT_TRUE(rank->take());
    EXPECT_FALSE(rank->take());
  }
}

TEST_F(StepBarrierTest, ASignalIsNotTakenForAnotherRequestToStop) {
  start();
  ranks_[0]->requests.ask({.kind = RequestKind::stop, .by = "observer page", .text = {}});
  ranks_[1]->requests.ask({.kind = RequestKind::stop, .by = "signal 15", .signal = 15, .text = {}});
  EXPECT_EQ(begin(0), kBoth);
  for (const auto& rank : ranks_) {
    EXPECT_EQ(rank->take()->signal, 0);
    const auto second = rank->take();
    ASSERT_TRUE(second);
    EXPECT_EQ(second->signal, 15);
  }
}

// Rank 0 has read ahead of rank 1, which has stopped, and its graph is gone when the group is left.
TEST_F(StepBarrierTest, ThatHasEndedGivesNoAnswerWhenTheOthersGo) {
  start();
  std::future<Graph::StepAgreed> answer = ranks_[0]->ready(0);
  ranks_[0]->barrier.end();
  for (const auto& rank : ranks_) rank->group.leave(nullptr);
  ranks_[0].reset();  // its thread ends
  EXPECT_THROW(answer.get(), std::future_error) << "the barrier has ended";
}

}  // namespace
}  // namespace millrace

#include "report/relay.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <condition_variable>
#include <mutex>
#include <string>
#include <vector>

#include "millrace/error.h"
#include "testkit/few_addresses.h"
#include "testkit/messages.h"

namespace millrace {
namespace {

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
// Processes that stay silent until this one leaves.
class SilentGroup final : public Group {
 public:
  explicit SilentGroup(int size) : size_(size) { why_.reserve(256); }  // memory may be short later
  int rank() const override { return 0; }
  int size() const override { return size_; }
  void send(int, std::uint32_t, std::span<const std::byte>) override {}
  void receive(int, std::uint32_t, std::vector<std::byte>&) override {
    std::unique_lock lock(mutex_);
    ++calls_;
    changed_.wait(lock, [this] { return left_; });
    fail(ErrorKind::peer, "this process has left the run");
  }
  void leave(const Error* why) noexcept override {
    const std::lock_guard lock(mutex_);
    left_ = true;
    why_ = why == nullptr ? "" : why->what();
    changed_.notify_all();
  }
  std::string why() const { return why_; }
  int calls() const { return calls_; }

 private:
  const int size_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool left_ = false;
  std::string why_;
  int calls_ = 0;
};

TEST(ReportReceiver, OfMoreThreadsThanTheSystemStartsIsAnErrorAndNoCrash) {
  SilentGroup group(4096);
  std::string said;
  {
    const testkit::FewAddresses few(rlim_t{64} << 20);
    try {
      const ReportReceiver receiver(group, {});
    } catch (...) {
      said = current_error().message();
    }
  }
  EXPECT_TRUE(said.starts_with("the system cannot start another thread") || said == "out of memory") << said;
  EXPECT_GT(group.calls(), 0) << "some threads had begun";
  EXPECT_MESSAGE(group.why());
}
#endif

using Seconds = JointWarnings::Seconds;

// Received values.
struct Told {
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<std::string> texts;

  JointWarnings::Report report() {
    return [this](const std::set<int>& ranks, const std::string& text) {
      const std::lock_guard lock(mutex);
      texts.push_back(fmt::format("{}: {}", ranks_text(ranks), text));
      changed.notify_all();
    };
  }
  void wait_for(std::size_t count) {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return texts.size() >= count; });
  }
};

TEST(JointWarnings, OfSeveralRanksAreToldOnceWithTheRanks) {
  Told told;
  {
    JointWarnings warnings(told.report(), {Seconds(3600), Seconds(3600)});
    for (const int rank : {3, 1, 3}) warnings.add(rank, "the disk is full");
    warnings.add(2, "the disk is slow");
  }
  EXPECT_EQ(told.texts, (std::vector<std::string>{"ranks 1, 3: the disk is full", "rank 2: the disk is slow"}));
}

TEST(JointWarnings, AreToldWithoutWaitingForTheEndAndThenHeldForLonger) {
  Told told;
  {
    JointWarnings warnings(told.report(), {Seconds(0), Seconds(3600)});
    warnings.add(1, "the disk is full");
    told.wait_for(1);
    for (const int rank : {2, 3}) warnings.add(rank, "the disk is full");
    warnings.add(2, "the disk is slow");
    told.wait_for(2);
  }
  EXPECT_EQ(told.texts,
            (std::vector<std::string>{"rank 1: the disk is full", "rank 2: the disk is slow", "ranks 2, 3: the disk is full"}));
}

TEST(JointWarnings, OfManyRanksSayHowMany) {
  std::set<int> ranks;
  for (int rank = 1; rank < 512; ++rank) ranks.insert(rank);
  EXPECT_EQ(ranks_text(ranks), "511 ranks (1, 2, 3, 4, ...)");
}

}  // namespace
}  // namespace millrace

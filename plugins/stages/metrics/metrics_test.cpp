#include "metrics.h"

#include <gtest/gtest.h>

#include "millrace/error.h"
#include "testkit/harness.h"
#include "testkit/messages.h"

namespace millrace {
namespace {

class LateEvent : public Event {
 public:
  bool complete() const override { return done_; }
  void wait() const override {}
  void then(Callback done) override { callbacks_.push_back(std::move(done)); }
  void signal(const Error* failure = nullptr) {
    done_ = true;
    for (const Callback& callback : callbacks_) callback(failure);
  }

 private:
  bool done_ = false;
  std::vector<Callback> callbacks_;  // kept after the call, as a careless backend would
};

Ref<StepResult> result(std::uint64_t step, int replica, const Ref<LateEvent>& ready, std::vector<double> sums) {
  Ref<StepResult> made = make_ref<StepResult>();
  made->epoch = 2;
  made->step = step;
  made->replica = replica;
  made->replicas = 2;
  made->stream_hash = 77;
  made->ready = ready;
  made->sums = {StepSums{std::move(sums)}};
  made->samples = 1.5;
  return made;
}

TEST(Metrics, ReportsAStepOnceAllReplicasAreDone) {
  testkit::Harness harness(StageTypeAccess::make<Metrics>());
  const auto first = make_ref<LateEvent>(), second = make_ref<LateEvent>();
  harness.feed(testkit::packet(result(5, 1, second, {1, 2, 1, 2}), 5));
  harness.feed(testkit::packet(result(5, 0, first, {4, 3, 0, 1}), 5));
  EXPECT_EQ(harness.output().holds(), 1) << "the graph must not end before the device has written the sums";
  second->signal();
  EXPECT_TRUE(harness.run().reports().empty());
  first->signal();

  const auto reports = harness.run().reports();
  ASSERT_EQ(reports.size(), 1U);
  EXPECT_EQ(reports[0].epoch, 2U);
  EXPECT_EQ(reports[0].step, 5U);
  EXPECT_EQ(reports[0].stream_hash, 77U);
  EXPECT_EQ(reports[0].sums.loss(), 5);
  EXPECT_EQ(reports[0].sums.weight(), 5);
  EXPECT_EQ(reports[0].sums.at(2), 1);
  EXPECT_EQ(reports[0].sums.at(3), 3);
  EXPECT_EQ(reports[0].samples, 3);
  EXPECT_EQ(harness.output().holds(), 0) << "the hold ends with the report, whenever the event goes";
}

TEST(Metrics, ReportsNothingOfADeviceThatHasFailed) {
  testkit::Harness harness(StageTypeAccess::make<Metrics>());
  const auto first = make_ref<LateEvent>(), second = make_ref<LateEvent>();
  harness.feed(testkit::packet(result(5, 0, first, {1, 2, 1, 2}), 5));
  harness.feed(testkit::packet(result(5, 1, second, {4, 3, 0, 1}), 5));
  const Error failure(ErrorKind::device, "the device has failed");
  first->signal(&failure);  // its mark is complete then, and what the host has is not what the device computed
  second->signal();
  EXPECT_TRUE(harness.run().reports().empty());
  ASSERT_EQ(harness.output().errors().size(), 1U);
  EXPECT_MESSAGE(harness.output().errors()[0].message());
  EXPECT_EQ(harness.output().holds(), 0);
}

TEST(Metrics, ReportsAuxiliaryLossesByName) {
  testkit::Harness harness(StageTypeAccess::make<Metrics>());
  const auto event = make_ref<LateEvent>();
  for (const int replica : {0, 1}) {
    const Ref<StepResult> made = result(5, replica, event, {1, 2});
    made->auxiliary = {{"aux1", {StepSums{{1, 2}}, StepSums{{3, 2}}}}, {"aux2", {StepSums{{8, 4}}}}};
    harness.feed(testkit::packet(made, 5));
  }
  event->signal();
  const auto reports = harness.run().reports();
  ASSERT_EQ(reports.size(), 1U);
  ASSERT_EQ(reports[0].auxiliary.size(), 2U);
  EXPECT_EQ(reports[0].auxiliary.at("aux1").values, (std::vector<double>{8, 8}));
  EXPECT_EQ(reports[0].auxiliary.at("aux2").values, (std::vector<double>{16, 8}));
  EXPECT_EQ(reports[0].sums.loss(), 2);
}

TEST(Metrics, KeepsStepsApart) {
  testkit::Harness harness(StageTypeAccess::make<Metrics>());
  const auto event = make_ref<LateEvent>();
  harness.feed(testkit::packet(result(0, 0, event, {1}), 0));
  harness.feed(testkit::packet(result(1, 0, event, {10}), 1));
  harness.feed(testkit::packet(result(1, 1, event, {20}), 1));
  event->signal();
  ASSERT_EQ(harness.run().reports().size(), 1U);
  EXPECT_EQ(harness.run().reports()[0].step, 1U);
  EXPECT_EQ(harness.run().reports()[0].sums.loss(), 30);
}

TEST(Metrics, StopsInTheMiddleOfAStep) {
  testkit::Harness harness(StageTypeAccess::make<Metrics>());
  harness.feed(testkit::packet(result(0, 0, make_ref<LateEvent>(), {}), 0));
  harness.stage().stop();
  harness.stage().stop();
  EXPECT_TRUE(harness.run().reports().empty());
}

}  // namespace
}  // namespace millrace

#include "allreduce.h"

#include <gtest/gtest.h>

#include "millrace/error.h"
#include "millrace/util/load_plugins.h"
#include "testkit/files.h"
#include "testkit/harness.h"
#include "testkit/messages.h"
#include "testkit/plain.h"

namespace millrace {
namespace {

class AllreduceTest : public testing::Test {
 protected:
  void start(std::size_t replicas, const Value& parameters = {}) {
    load_plugin(registry_, MILLRACE_PLUGINS "/communicator_local.so");
    for (std::size_t r = 0; r < replicas; ++r) {
      devices_.push_back(testkit::make_plain_backend()->open(0, {}));
      context_.devices.push_back(devices_.back().get());
      context_.replicas.push_back(nullptr);  // counted, never used
    }
    context_.registry = &registry_;
    harness_ = std::make_unique<testkit::Harness>(StageTypeAccess::make<Allreduce>(), parameters, context_);
    harness_->stage().open();
  }

  void feed(std::uint64_t step, int replica, int bucket, std::vector<float>& values) {
    Ref<GradientBucket> payload = make_ref<GradientBucket>();
    payload->step = step;
    payload->replica = replica;
    payload->bucket = bucket;
    payload->data = values.data();
    payload->elements = values.size();
    Packet packet = testkit::packet(std::move(payload), step);
    packet.replica = replica;
    harness_->feed(std::move(packet));
  }

  Registry registry_;
  std::vector<std::unique_ptr<Device>> devices_;
  StepContext context_;
  std::unique_ptr<testkit::Harness> harness_;
};

TEST_F(AllreduceTest, PassesBucketsOfASingleReplicaThrough) {
  start(1);
  std::vector<float> values = {1, 2};
  feed(3, 0, 0, values);
  const std::vector<Packet> out = harness_->take();
  ASSERT_EQ(out.size(), 1U);
  EXPECT_EQ(out[0].sequence, 3U);
  EXPECT_EQ(static_cast<GradientBucket&>(*out[0].payload).data, values.data());
  EXPECT_EQ(values, (std::vector<float>{1, 2}));
}

TEST_F(AllreduceTest, EveryReplicaEndsWithTheSum) {
  start(3);
  std::vector<float> a = {1, 2, 3}, b = {10, 20, 30}, c = {100, 200, 300};
  feed(0, 1, 0, b);
  feed(0, 0, 0, a);
  EXPECT_TRUE(harness_->take().empty()) << "a bucket left before the last replica's came";
  feed(0, 2, 0, c);
  const std::vector<float> sum = {111, 222, 333};
  EXPECT_EQ(a, sum);
  EXPECT_EQ(b, sum);
  EXPECT_EQ(c, sum);
  const std::vector<Packet> out = harness_->take();
  ASSERT_EQ(out.size(), 3U);
  for (int r = 0; r < 3; ++r) EXPECT_EQ(out[static_cast<std::size_t>(r)].replica, r);
}

TEST_F(AllreduceTest, AddsInReplicaOrderWhateverArrivesFirst) {
  // (1 + 1e8) - 1e8 is 0 in float32; any other order gives 1.
  start(3);
  std::vector<float> a = {1}, b = {1e8F}, c = {-1e8F};
  feed(0, 2, 0, c);
  feed(0, 1, 0, b);
  feed(0, 0, 0, a);
  EXPECT_EQ(a[0], 0);
  EXPECT_EQ(c[0], 0);
}

TEST_F(AllreduceTest, KeepsStepsAndBucketsApart) {
  start(2);
  std::vector<float> first = {1}, second = {2}, other = {4}, later = {8};
  feed(0, 0, 0, first);
  feed(0, 0, 1, other);
  feed(1, 1, 0, later);
  EXPECT_TRUE(harness_->take().empty());
  feed(0, 1, 0, second);
  EXPECT_EQ(harness_->take().size(), 2U);
  EXPECT_EQ(first[0], 3);
  EXPECT_EQ(other[0], 4);
  EXPECT_EQ(later[0], 8);
}

TEST_F(AllreduceTest, RefusesBucketsOfDifferentLayouts) {
  start(2);
  std::vector<float> a = {1}, b = {1, 2};
  feed(0, 0, 0, a);
  EXPECT_THROW(feed(0, 1, 0, b), Error);
}

// Sums, and later reports a failure.
class Failing : public Communicator {
 public:
  explicit Failing(std::unique_ptr<Communicator> sums) : sums_(std::move(sums)) {}
  void all_reduce(std::span<const Ref<GradientBucket>> buckets) override { sums_->all_reduce(buckets); }
  void check() override { fail(ErrorKind::device, "the link is down"); }

 private:
  std::unique_ptr<Communicator> sums_;
};

TEST_F(AllreduceTest, ASumThatFailsAfterTheLastStepWasSubmittedEndsTheRun) {
  registry_.add(CommunicatorType{{"failing"}, "", [this](const CommunicatorType::Setting& setting) {
                                   return std::make_unique<Failing>(registry_.communicators().find("local")->create(setting));
                                 }});
  start(2, testkit::table({{"communicator", Value(std::string("failing"))}}));
  std::vector<float> a = {1}, b = {2};
  feed(0, 0, 0, a);
  feed(0, 1, 0, b);
  const std::vector<Error> errors = harness_->output().errors();
  ASSERT_EQ(errors.size(), 2U) << "each replica's sum is looked at when it is there";
  EXPECT_MESSAGE(errors[0].what());
  EXPECT_EQ(harness_->output().holds(), 0);
  EXPECT_THROW(harness_->stage().save(), Error) << "the run may be at a checkpoint before it hears of that";
}

TEST_F(AllreduceTest, AnUnknownCommunicatorIsAnsweredWithTheNearest) {
  const Error error = testkit::error_of([&] { start(2, testkit::table({{"communicator", Value(std::string("locale"))}})); });
  EXPECT_STREQ(error.what(), "communicator = \"locale\": no such communicator; did you mean \"local\"?");
}

}  // namespace
}  // namespace millrace

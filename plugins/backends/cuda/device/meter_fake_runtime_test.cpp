// Measuring device time on a fake runtime: the driver calls made meanwhile.
#include "fake_runtime_fixture.h"
#include "runtime/device_meter.h"

namespace millrace::cuda {
namespace {

class MeterOnFakeRuntime : public OnFakeRuntime {
 protected:
  void work(Queue& queue, int pieces) {
    for (int i = 0; i < pieces; ++i) DeviceMeter::Piece(&meter_, queue, "compute", "work", &DeviceTimes::training);
  }
  DeviceMeter meter_{*machine_};
};

// Each query is a driver call, under a lock.
TEST_F(MeterOnFakeRuntime, AsksForOnePieceOfAQueueHoweverFarTheHostIsAhead) {
  const std::unique_ptr<Queue> other = machine_->make_queue("update");
  fake::hold();
  work(*queue_, 100);
  work(*other, 100);
  const int before = fake::queries();
  work(*queue_, 1);
  EXPECT_EQ(fake::queries() - before, 2);
  EXPECT_EQ(meter_.times().training, 0);
  fake::release();
  EXPECT_NEAR(meter_.times().training, 0.201, 1e-6);  // this runtime's marks are a millisecond apart
}

TEST_F(MeterOnFakeRuntime, UsesMarksAgain) {
  work(*queue_, 1);
  const int before = fake::open_things();
  work(*queue_, 100);
  EXPECT_EQ(fake::open_things(), before);
}

TEST_F(MeterOnFakeRuntime, KeepsTheFirstPiecesInOrderOfTheirBegin) {
  const std::unique_ptr<Queue> other = machine_->make_queue("update");
  DeviceMeter meter(*machine_, 3);
  {
    const DeviceMeter::Piece outer(&meter, *queue_, "compute", "forward", &DeviceTimes::training);
    const DeviceMeter::Piece inner(&meter, *other, "update", "optimizer");
    for (int i = 0; i < 2; ++i) DeviceMeter::Piece(&meter, *queue_, "compute", "loss");
  }
  const std::vector<WorkSpan> spans = meter.spans();
  ASSERT_EQ(spans.size(), 3U);
  const char* const expected[] = {"forward", "optimizer", "loss"};
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(spans[i].what, expected[i]);
    EXPECT_NEAR(spans[i].begin, 0.001 * static_cast<double>(i), 1e-6);  // this runtime's marks are a millisecond apart
  }
  EXPECT_EQ(spans[1].queue, "update");
  EXPECT_NEAR(spans[2].end - spans[2].begin, 0.001, 1e-6);
  EXPECT_NEAR(meter.times().training, 0.005, 1e-6);
  EXPECT_EQ(meter.times().update, 0);
}

TEST_F(MeterOnFakeRuntime, KeepsWhatItKnowsWhenTheDeviceFails) {
  fake::hold();
  const std::uint64_t before = fake::recorded();
  work(*queue_, 3);
  fake::finish_to(before + 2);  // the first piece: two marks
  EXPECT_NEAR(meter_.times().training, 0.001, 1e-6);
  fake::fail_work(cudaErrorLaunchFailure);
  EXPECT_NEAR(meter_.times().training, 0.001, 1e-6);
  EXPECT_NEAR(meter_.times().training, 0.001, 1e-6) << "asked again";
}

// The error occurs between a complete piece and incomplete ones.
TEST_F(MeterOnFakeRuntime, CountsEachPieceOnceAlthoughAQuestionFails) {
  fake::hold();
  const std::uint64_t before = fake::recorded();
  work(*queue_, 3);
  fake::finish_to(before + 2);
  fake::fail_query(3, cudaErrorLaunchFailure);
  for (int question = 0; question < 3; ++question) EXPECT_NEAR(meter_.times().training, 0.001, 1e-6) << question;
  fake::release();
  EXPECT_NEAR(meter_.times().training, 0.003, 1e-6);
}

}  // namespace
}  // namespace millrace::cuda

// Requirements of every stage: it can be made, stops in any state, and gives results independent of threads.
#include "discovered.h"

namespace millrace::conformance {
namespace {

class EveryStage : public testing::TestWithParam<std::string> {};
class EverySource : public EveryStage {};
class EverySampleTransform : public EveryStage {};
class EveryBatcher : public EveryStage {};

TEST_P(EveryStage, StopsTwiceWithoutHavingBeenOpened) { expect_passes("stage", "stop before open", GetParam()); }
TEST_P(EveryStage, OpensAndStopsTwice) { expect_passes("stage", "stop twice", GetParam()); }
TEST_P(EveryStage, IsMadeOnManyThreadsAtOnce) { expect_passes("stage", "construction", GetParam()); }
TEST_P(EveryStage, RefusesAWrongTableWithoutBeingMade) { expect_passes("stage", "wrong table", GetParam()); }
TEST_P(EveryStage, TakesUpWhatItSaved) { expect_passes("stage", "state", GetParam()); }

TEST_P(EverySampleTransform, GivesTheSameSamplesAgain) { expect_passes("stage", "determinism", GetParam()); }
TEST_P(EverySampleTransform, GivesTheSameSamplesWhateverTheThreadsDo) { expect_passes("stage", "thread safety", GetParam()); }
TEST_P(EverySampleTransform, LeavesSamplesAloneThatItSentOn) { expect_passes("stage", "own sample", GetParam()); }
TEST_P(EverySampleTransform, GivesWhatItAnnounces) { expect_passes("stage", "results", GetParam()); }
TEST_P(EverySampleTransform, WritesInsideItsSlots) { expect_passes("stage", "slots", GetParam()); }
TEST_P(EverySampleTransform, LeavesBadSamplesAlone) { expect_passes("stage", "bad samples", GetParam()); }
TEST_P(EverySampleTransform, StopsInTheMiddleOfABatch) { expect_passes("stage", "cancellation", GetParam()); }
TEST_P(EverySampleTransform, KeepsNoMemoryOfSamples) { expect_passes("stage", "leaks", GetParam()); }

TEST_P(EveryBatcher, CountsEverySampleIntoOneBatch) { expect_passes("stage", "batches", GetParam()); }

TEST_P(EverySource, ReadsTheSameSamplesAgain) { expect_passes("stage", "determinism", GetParam()); }
TEST_P(EverySource, ReadsTheSameSamplesWhateverTheThreadsDo) { expect_passes("stage", "thread safety", GetParam()); }
TEST_P(EverySource, KeepsNoMemoryOfSamples) { expect_passes("stage", "leaks", GetParam()); }

using Role = StageType::Role;
INSTANTIATE_TEST_SUITE_P(Discovered, EveryStage, testing::ValuesIn(stage_names()), by_name);
INSTANTIATE_TEST_SUITE_P(Discovered, EverySource, testing::ValuesIn(stage_names(Role::source)), by_name);
INSTANTIATE_TEST_SUITE_P(Discovered, EverySampleTransform, testing::ValuesIn(stage_names(Role::sample_transform)), by_name);
INSTANTIATE_TEST_SUITE_P(Discovered, EveryBatcher, testing::ValuesIn(stage_names(Role::batcher)), by_name);

}  // namespace
}  // namespace millrace::conformance

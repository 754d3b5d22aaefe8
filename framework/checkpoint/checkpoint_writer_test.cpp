// The thread that writes checkpoints.
#include "checkpoint/checkpoint_writer.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <limits>
#include <thread>

#include "checkpoint/checkpoint_fixture.h"
#include "millrace/error.h"
#include "testkit/messages.h"

namespace millrace::checkpoint_test {
namespace {

class CheckpointWriterTest : public CheckpointTest {
 protected:
  CheckpointWriter::Setting setting() {
    return {.folder = folder_.path() / "made",
            .keep = 2,
            .seconds = 0,
            .report = [this](CheckpointEvent event) { events_.push_back(std::move(event)); },
            .warn = [this](std::string text) { warnings_ += text + "\n"; }};
  }
  std::string latest() const { return pointed_to(folder_.path() / "made", "latest"); }

  std::vector<CheckpointEvent> events_;  // read after wait()
};

TEST_F(CheckpointWriterTest, AreWrittenAndToldInOrder) {
  std::vector<std::uint64_t> exported;
  CheckpointWriter::Setting exporting = setting();
  exporting.attempted = [&](const Checkpoint* best) { exported.push_back(best != nullptr ? best->state.step : 0); };
  CheckpointWriter checkpoints(std::move(exporting));
  for (std::uint64_t step = 1; step <= 4; ++step)
    checkpoints.write(checkpoint_at(step), step == 1, CheckpointWriter::Clock::now());
  checkpoints.finish();
  EXPECT_EQ(latest(), checkpoint_name(4));
  EXPECT_EQ(pointed_to(folder_.path() / "made", "best"), checkpoint_name(1));
  EXPECT_EQ(exported, (std::vector<std::uint64_t>{1, 0, 0, 0}));
  ASSERT_EQ(events_.size(), 4U);
  EXPECT_EQ(events_[3].step, 4U);
  EXPECT_EQ(events_[3].path, folder_.path() / "made" / checkpoint_name(4));
  EXPECT_GT(events_[3].bytes, 0U);
  EXPECT_GT(events_[3].seconds, 0);
  for (std::uint64_t step = 1; step <= 4; ++step) {
    EXPECT_EQ(fs::exists(folder_.path() / "made" / checkpoint_name(step)), step != 2) << step;
  }
}

TEST_F(CheckpointWriterTest, ADiskThatTakesNoMoreLeavesTheOldOneAndIsToldOnce) {
  CheckpointWriter checkpoints(setting());
  checkpoints.write(checkpoint_at(1), false, CheckpointWriter::Clock::now());
  checkpoints.wait();
  {
    const testkit::SmallFiles small(100);
    for (std::uint64_t step = 2; step <= 3; ++step) {
      checkpoints.write(checkpoint_at(step), false, CheckpointWriter::Clock::now());
      checkpoints.wait();
    }
    EXPECT_MESSAGE(warnings_);
    EXPECT_EQ(std::count(warnings_.begin(), warnings_.end(), '\n'), 1) << warnings_;
    EXPECT_NE(std::string(testkit::error_of([&] { checkpoints.finish(); }).what()).find("File too large"), std::string::npos);
  }
  EXPECT_EQ(latest(), checkpoint_name(1));
  read_checkpoint(folder_.path() / "made" / checkpoint_name(1));
  int left_out = 0;
  while (checkpoints.backs_off()) ++left_out;
  EXPECT_EQ(left_out, 3) << "two attempts have failed";
  checkpoints.write(checkpoint_at(4), false, CheckpointWriter::Clock::now());
  checkpoints.finish();
  EXPECT_EQ(latest(), checkpoint_name(4));
  EXPECT_FALSE(checkpoints.backs_off());
  EXPECT_EQ(events_.size(), 2U);
}

TEST_F(CheckpointWriterTest, AFolderThatIsMovedAwayIsMadeAgainAndThatIsSaidOnce) {
  CheckpointWriter checkpoints(setting());
  for (std::uint64_t step = 1; step <= 4; ++step) {
    if (step == 2) fs::rename(folder_.path() / "made", folder_.path() / "moved");
    checkpoints.write(checkpoint_at(step), false, CheckpointWriter::Clock::now());
    checkpoints.wait();
    const bool is_moved = warnings_.find("made' was moved or removed: later ones go into a new folder") != std::string::npos;
    EXPECT_EQ(is_moved, step > 1) << step << ": " << warnings_;
  }
  checkpoints.finish();
  EXPECT_EQ(std::count(warnings_.begin(), warnings_.end(), '\n'), 1) << warnings_;
  EXPECT_EQ(latest(), checkpoint_name(4));
  EXPECT_EQ(pointed_to(folder_.path() / "moved", "latest"), checkpoint_name(1));
}

TEST_F(CheckpointWriterTest, OneAttemptInEightIsMadeHoweverManyFailed) {
  CheckpointWriter checkpoints(setting());
  const testkit::SmallFiles small(100);
  for (std::uint64_t step = 1; step <= 9; ++step) {
    checkpoints.write(checkpoint_at(step), false, CheckpointWriter::Clock::now());
    checkpoints.wait();
  }
  int left_out = 0;
  while (checkpoints.backs_off()) ++left_out;
  EXPECT_EQ(left_out, 7);
  EXPECT_MESSAGE(warnings_);
}

TEST_F(CheckpointWriterTest, TheFirstThatARunThatGoesOnCannotWriteLeavesTheOneBefore) {
  CheckpointWriter::Setting resumed = setting();
  resumed.resumes = true;
  CheckpointWriter checkpoints(std::move(resumed));
  const testkit::SmallFiles small(100);
  checkpoints.write(checkpoint_at(1), false, CheckpointWriter::Clock::now());
  checkpoints.wait();
  EXPECT_MESSAGE(warnings_);
}

TEST_F(CheckpointWriterTest, ValuesMayComeOnTheThreadThatWrites) {
  const Checkpoint whole = checkpoint_at(1);
  Checkpoint empty = whole;
  for (NamedTensor& tensor : empty.tensors) tensor.values.clear();
  std::thread::id thread;
  CheckpointWriter checkpoints(setting());
  checkpoints.write(std::move(empty), false, CheckpointWriter::Clock::now(), [&](std::vector<NamedTensor>& tensors) {
    thread = std::this_thread::get_id();
    for (std::size_t i = 0; i < tensors.size(); ++i) tensors[i].values = whole.tensors[i].values;
  });
  checkpoints.finish();
  EXPECT_NE(thread, std::this_thread::get_id());
  const Checkpoint read = read_checkpoint(folder_.path() / "made" / checkpoint_name(1));
  ASSERT_EQ(read.tensors.size(), whole.tensors.size());
  for (std::size_t i = 0; i < whole.tensors.size(); ++i) EXPECT_EQ(read.tensors[i].values, whole.tensors[i].values);
}

TEST_F(CheckpointWriterTest, WithoutItsValuesOneIsNotWritten) {
  CheckpointWriter checkpoints(setting());
  checkpoints.write(checkpoint_at(1), false, CheckpointWriter::Clock::now());
  checkpoints.write(checkpoint_at(2), true, CheckpointWriter::Clock::now(),
                    [](auto&) { fail(ErrorKind::device, "cuda:0 is lost"); });
  EXPECT_MESSAGE(testkit::error_of([&] { checkpoints.finish(); }).what());
  EXPECT_MESSAGE(warnings_);
  EXPECT_EQ(latest(), checkpoint_name(1));
  checkpoints.write(checkpoint_at(3), false, CheckpointWriter::Clock::now());
  checkpoints.finish();
  EXPECT_EQ(latest(), checkpoint_name(3));
}

TEST_F(CheckpointWriterTest, ValuesThatAreNotFiniteAreNeverTheNewest) {
  CheckpointWriter checkpoints(setting());
  checkpoints.write(checkpoint_at(1), false, CheckpointWriter::Clock::now());
  for (const float value : {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    Checkpoint bad = checkpoint_at(2);
    bad.tensors[1].values[3] = value;
    checkpoints.write(std::move(bad), true, CheckpointWriter::Clock::now());
    EXPECT_STREQ(testkit::error_of([&] { checkpoints.finish(); }).what(),
                 "the last checkpoint was not written: 'fc.weight/momentum' has values that are not finite");
  }
  const std::string warning = "no checkpoint after step 2: 'fc.weight/momentum' has values that are not finite\n";
  EXPECT_EQ(warnings_, warning + warning);
  EXPECT_EQ(latest(), checkpoint_name(1));
  EXPECT_EQ(pointed_to(folder_.path() / "made", "best"), "");
}

TEST_F(CheckpointWriterTest, ValuesThatAreNotFiniteDoNotMakeADiskThatFailedGood) {
  CheckpointWriter checkpoints(setting());
  {
    const testkit::SmallFiles small(100);
    checkpoints.write(checkpoint_at(1), false, CheckpointWriter::Clock::now());
    checkpoints.wait();
  }
  Checkpoint bad = checkpoint_at(2);
  bad.tensors[1].values[3] = std::numeric_limits<float>::infinity();
  checkpoints.write(std::move(bad), false, CheckpointWriter::Clock::now());
  checkpoints.wait();
  EXPECT_TRUE(checkpoints.backs_off()) << "the failure before it is forgotten";
}

TEST_F(CheckpointWriterTest, ABestOneThatTheDiskDidNotTakeIsWrittenBeforeTheNext) {
  CheckpointWriter checkpoints(setting());
  checkpoints.write(checkpoint_at(1), true, CheckpointWriter::Clock::now());
  checkpoints.wait();
  {
    const testkit::SmallFiles small(100);
    checkpoints.write(checkpoint_at(2), true, CheckpointWriter::Clock::now());
    checkpoints.wait();
  }
  EXPECT_EQ(pointed_to(folder_.path() / "made", "best"), checkpoint_name(1));
  EXPECT_MESSAGE(warnings_);
  checkpoints.write(checkpoint_at(3), false, CheckpointWriter::Clock::now());
  checkpoints.finish();
  EXPECT_EQ(pointed_to(folder_.path() / "made", "best"), checkpoint_name(2));
  EXPECT_EQ(read_checkpoint(folder_.path() / "made" / checkpoint_name(2)).state.step, 2U);
  EXPECT_EQ(latest(), checkpoint_name(3));
  ASSERT_EQ(events_.size(), 3U);
  EXPECT_EQ(events_[1].step, 2U);
  EXPECT_TRUE(events_[1].best);
}

TEST_F(CheckpointWriterTest, ABestOneThatIsNeverWrittenIsAnErrorAndRescued) {
  CheckpointWriter::Setting with_rescue = setting();
  with_rescue.rescue = folder_.path() / "rescue";
  CheckpointWriter checkpoints(with_rescue);
  checkpoints.write(checkpoint_at(1), false, CheckpointWriter::Clock::now());
  checkpoints.wait();
  const fs::path made = folder_.path() / "made";
  fs::rename(made, folder_.path() / "away");  // so that retries fail
  folder_.write("made", "a file");
  checkpoints.write(checkpoint_at(2), true, CheckpointWriter::Clock::now());
  checkpoints.wait();
  Checkpoint bad = checkpoint_at(3);
  bad.tensors[0].values[0] = std::numeric_limits<float>::quiet_NaN();
  checkpoints.write(std::move(bad), false, CheckpointWriter::Clock::now());
  const std::string error = testkit::error_of([&] { checkpoints.finish(); }).what();
  EXPECT_MESSAGE(error);
  EXPECT_EQ(pointed_to(folder_.path() / "rescue", "best"), checkpoint_name(2)) << error;
  EXPECT_EQ(read_checkpoint(folder_.path() / "rescue" / checkpoint_name(2)).state.step, 2U);
  EXPECT_EQ(checkpoints.rescued(), "") << "it is not the last one";
}

TEST_F(CheckpointWriterTest, ABestOneThatWaitsIsTriedOnceMoreWhenTheRunFails) {
  CheckpointWriter checkpoints(setting());
  {
    const testkit::SmallFiles small(100);
    checkpoints.write(checkpoint_at(1), true, CheckpointWriter::Clock::now());
    checkpoints.wait();
    EXPECT_MESSAGE(checkpoints.finish_best());
    checkpoints.write(checkpoint_at(2), true, CheckpointWriter::Clock::now());
    checkpoints.wait();
  }
  EXPECT_EQ(checkpoints.finish_best(), "");
  EXPECT_EQ(pointed_to(folder_.path() / "made", "best"), checkpoint_name(2));
  EXPECT_EQ(checkpoints.finish_best(), "");
}

TEST_F(CheckpointWriterTest, WhatOneStandsBehindIsOnTheDiskBeforeItIsTheNewest) {
  CheckpointWriter::Setting watched = setting();
  std::vector<std::string> seen;
  watched.sync = [&] {
    EXPECT_TRUE(fs::exists(folder_.path() / "made" / checkpoint_name(seen.size() + 1) / "manifest.json"));
    seen.push_back(latest());
  };
  CheckpointWriter checkpoints(watched);
  for (std::uint64_t step = 1; step <= 2; ++step) checkpoints.write(checkpoint_at(step), false, CheckpointWriter::Clock::now());
  checkpoints.finish();
  EXPECT_EQ(seen, (std::vector<std::string>{"", checkpoint_name(1)}));
}

TEST_F(CheckpointWriterTest, ByTimeTheyAreDueOnceAnInterval) {
  CheckpointWriter::Setting hours = setting();
  EXPECT_FALSE(CheckpointWriter(hours).is_time());
  hours.seconds = 3600;
  EXPECT_FALSE(CheckpointWriter(hours).is_time());
  hours.seconds = 1e-9;
  CheckpointWriter at_once(hours);
  EXPECT_TRUE(at_once.is_time());
}

TEST_F(CheckpointWriterTest, AFolderHasOneWriter) {
  {
    const CheckpointWriter first(setting());
    EXPECT_MESSAGE(testkit::error_of(ErrorKind::usage, [&] { const CheckpointWriter second(setting()); }).what());
  }
  EXPECT_NO_THROW(CheckpointWriter{setting()});
}

TEST_F(CheckpointWriterTest, AFolderThatCannotBeMadeIsNamed) {
  folder_.write("made", "a file");
  EXPECT_MESSAGE(testkit::error_of(ErrorKind::usage, [&] { const CheckpointWriter checkpoints(setting()); }).what());
}

}  // namespace
}  // namespace millrace::checkpoint_test

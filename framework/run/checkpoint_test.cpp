// The format on the disk, what is believed of it, and the thread that writes it.
#include "run/checkpoint.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>

#include "millrace/error.h"
#include "run/checkpoints.h"
#include "testkit/files.h"
#include "testkit/small_files.h"

namespace millrace::checkpoint_test {
namespace {

namespace fs = std::filesystem;

Checkpoint checkpoint_at(std::uint64_t step) {
  Checkpoint checkpoint;
  checkpoint.state.step = step;
  const auto value = static_cast<float>(step);
  checkpoint.tensors = {{"fc.weight/value", {2, 3}, std::vector<float>(6, value)},
                        {"fc.weight/momentum", {2, 3}, {0.1F, -0.0F, 1e-40F, 3e38F, value, 1}},
                        {"bn.running_mean/value/1", {2}, {value, -value}}};
  checkpoint.pipeline = "[run]\nseed = 1\n";
  return checkpoint;
}

std::string name_of(const std::optional<FoundCheckpoint>& found) { return found ? found->path.filename().string() : "none"; }

class CheckpointTest : public testing::Test {
 protected:
  void write(std::uint64_t step) const {
    write_checkpoint(folder_.path(), checkpoint_at(step));
    point_to(folder_.path(), "latest", checkpoint_name(step));
  }
  std::string newest() {
    warnings_.clear();
    return name_of(newest_checkpoint(folder_.path(), [this](std::string text) { warnings_ += text + "\n"; }));
  }
  std::vector<std::string> there() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder_.path())) names.push_back(entry.path().filename().string());
    std::sort(names.begin(), names.end());
    return names;
  }

  const testkit::TestFolder folder_;
  std::string warnings_;
};

TEST_F(CheckpointTest, StateKeepsEveryBit) {
  RunState state;
  state.step = std::numeric_limits<std::uint64_t>::max();
  state.seconds = 0.1;
  state.passes_due = {"validate"};
  state.so_far = {1.0 / 3, 40, 7, 0xfedcba9876543210, {{1e-300, std::numeric_limits<double>::infinity(), 2}}};
  state.so_far.sums.values.push_back(std::numeric_limits<double>::quiet_NaN());
  state.watched["run.best validate.loss"] = {0.30000000000000004, 20, 3};
  state.watched["stop.figure validate.loss"] = {{}, 0, 1};
  state.stages["optimizer"] = "12";
  state.batches = {{0xfedcba9876543210, 1}, {2, std::numeric_limits<std::uint64_t>::max()}};
  state.bad_samples = 12;
  state.bad_and_ahead = {{"train", 3, 17, 1}};
  state.metadata["plans"] = "{\"a\": \"\\n\"}";
  state.versions = {{"Millrace", "0.1.0"}, {"cpu oneDNN", "2.6.3"}};
  state.network = "layers = [ { op = \"relu\" } ]\n";
  const RunState read = read_run_state(to_json(state));
  EXPECT_EQ(to_json(read), to_json(state));
  EXPECT_EQ(read.step, state.step);
  EXPECT_EQ(read.so_far.stream_hash, state.so_far.stream_hash);
  EXPECT_EQ(read.so_far.seconds, state.so_far.seconds);
  EXPECT_EQ(read.so_far.sums.values[1], state.so_far.sums.values[1]);
  EXPECT_TRUE(std::isnan(read.so_far.sums.values[3]));
  EXPECT_EQ(read.watched.at("run.best validate.loss").best, 0.30000000000000004);
  EXPECT_FALSE(read.watched.at("stop.figure validate.loss").best);
  EXPECT_EQ(read.metadata, state.metadata);
  EXPECT_EQ(read.versions, state.versions);
  EXPECT_EQ(read.network, state.network);
  EXPECT_EQ(read.batches, state.batches);
  EXPECT_EQ(read.bad_samples, 12U);
  EXPECT_EQ(read.bad_and_ahead, state.bad_and_ahead);
}

TEST_F(CheckpointTest, ReadsBackWhatWasWritten) {
  const Checkpoint made = checkpoint_at(1200);
  const std::uint64_t bytes = write_checkpoint(folder_.path(), made);
  const fs::path path = folder_.path() / "step-000001200";
  std::uint64_t there = 0;
  for (const auto& file : fs::directory_iterator(path)) there += file.file_size();
  EXPECT_EQ(bytes, there);
  const Checkpoint read = read_checkpoint(path);
  EXPECT_EQ(to_json(read.state), to_json(made.state));
  EXPECT_EQ(read.pipeline, made.pipeline);
  ASSERT_EQ(read.tensors.size(), made.tensors.size());
  for (std::size_t i = 0; i < read.tensors.size(); ++i) {
    EXPECT_EQ(read.tensors[i].name, made.tensors[i].name);
    EXPECT_EQ(read.tensors[i].shape, made.tensors[i].shape);
    EXPECT_EQ(read.tensors[i].values, made.tensors[i].values);
  }
}

TEST_F(CheckpointTest, ACutFileIsNotBelievedAndTheOneBeforeIsTaken) {
  for (const std::string name : {"state.safetensors", "state.json", "pipeline.toml"}) {
    write(1);
    write(2);
    const fs::path file = folder_.path() / checkpoint_name(2) / name;
    const auto size = fs::file_size(file);
    fs::resize_file(file, size / 2);
    EXPECT_EQ(newest(), checkpoint_name(1));
    EXPECT_EQ(warnings_, fmt::format("the checkpoint '{}' cannot be used: '{}' has {} bytes, and should have {}\n",
                                     folder_ / checkpoint_name(2), name, size / 2, size));
  }
}

TEST_F(CheckpointTest, AWrongBitIsNotBelieved) {
  write(1);
  write(2);
  const fs::path file = folder_.path() / checkpoint_name(2) / "state.safetensors";
  {
    std::fstream stream(file, std::ios::binary | std::ios::in | std::ios::out);
    stream.seekp(-3, std::ios::end);
    stream.put('\x01');
  }
  EXPECT_EQ(newest(), checkpoint_name(1));
  EXPECT_NE(warnings_.find("'state.safetensors' has checksum "), std::string::npos) << warnings_;
}

TEST_F(CheckpointTest, WithoutItsManifestItIsNotBelieved) {
  write(1);
  write(2);
  const std::string manifest = folder_ / (checkpoint_name(2) + "/manifest.json");
  std::ofstream(manifest) << R"({"files": []})";
  EXPECT_EQ(newest(), checkpoint_name(1));
  EXPECT_NE(warnings_.find("its manifest.json does not name 'state.safetensors'"), std::string::npos) << warnings_;
  std::ofstream(manifest) << R"({"files": [)";
  EXPECT_EQ(newest(), checkpoint_name(1));
  EXPECT_NE(warnings_.find("its manifest.json is damaged"), std::string::npos) << warnings_;
  fs::remove(manifest);
  EXPECT_EQ(newest(), checkpoint_name(1));
  EXPECT_NE(warnings_.find("'manifest.json' cannot be opened: No such file"), std::string::npos) << warnings_;
  fs::remove_all(folder_.path() / checkpoint_name(1));
  EXPECT_EQ(newest(), "none");
}

// A writer that was killed between the two has made a whole folder, and `latest` names the one before.
TEST_F(CheckpointTest, LatestSaysWhichIsTheNewest) {
  write(1);
  write_checkpoint(folder_.path(), checkpoint_at(2));
  EXPECT_EQ(newest(), checkpoint_name(1));
  EXPECT_EQ(warnings_, "");
  fs::remove(folder_.path() / "latest");
  EXPECT_EQ(newest(), checkpoint_name(2));
  point_to(folder_.path(), "latest", checkpoint_name(9));
  EXPECT_EQ(newest(), checkpoint_name(2));
  EXPECT_EQ(warnings_, fmt::format("the checkpoint '{}' is gone\n", folder_ / checkpoint_name(9)));
}

TEST_F(CheckpointTest, AnUnfinishedOneIsNoneAndIsRemoved) {
  write(1);
  fs::copy(folder_.path() / checkpoint_name(1), folder_.path() / ".step-000000002.new", fs::copy_options::recursive);
  EXPECT_EQ(newest(), checkpoint_name(1));
  tidy_checkpoints(folder_.path(), checkpoint_name(1), 3);
  EXPECT_EQ(there(), (std::vector<std::string>{"latest", checkpoint_name(1)}));
}

TEST_F(CheckpointTest, KeepsTheNewestAndTheBest) {
  for (std::uint64_t step = 1; step <= 6; ++step) write(step);
  point_to(folder_.path(), "best", checkpoint_name(2));
  tidy_checkpoints(folder_.path(), checkpoint_name(5), 2);  // 6 is of a run that went on behind 4
  EXPECT_EQ(there(), (std::vector<std::string>{"best", "latest", checkpoint_name(2), checkpoint_name(4), checkpoint_name(5)}));
}

TEST_F(CheckpointTest, KeepsTheFirstBehindEachStretchForEver) {
  for (const std::uint64_t step : {300, 600, 900, 1200, 1500, 1800, 2100, 2400}) {
    write(step);
    tidy_checkpoints(folder_.path(), checkpoint_name(step), 1, [](std::uint64_t at) { return at / 1000; });
  }
  EXPECT_EQ(there(), (std::vector<std::string>{"latest", checkpoint_name(1200), checkpoint_name(2100), checkpoint_name(2400)}));
}

// As a writer leaves it that was killed on a file system that cannot exchange two names.
TEST_F(CheckpointTest, OneThatIsBeingReplacedIsFound) {
  write(1);
  write(2);
  fs::rename(folder_.path() / checkpoint_name(2), folder_.path() / ".step-000000002.old");
  EXPECT_EQ(newest(), ".step-000000002.old");
  EXPECT_EQ(warnings_, "");
  write(2);
  EXPECT_EQ(newest(), checkpoint_name(2));
  EXPECT_EQ(there(), (std::vector<std::string>{"latest", checkpoint_name(1), checkpoint_name(2)}));
}

TEST_F(CheckpointTest, APointerThatAKilledWriterHasNotFinishedIsRemoved) {
  write(1);
  folder_.write("latest.new-77", "step-");
  tidy_checkpoints(folder_.path(), checkpoint_name(1), 3);
  EXPECT_EQ(there(), (std::vector<std::string>{"latest", checkpoint_name(1)}));
}

TEST_F(CheckpointTest, TakesThePlaceOfOneOfTheSameStep) {
  write(1);
  Checkpoint other = checkpoint_at(1);
  other.pipeline = "other";
  write_checkpoint(folder_.path(), other);
  EXPECT_EQ(read_checkpoint(folder_.path() / checkpoint_name(1)).pipeline, "other");
  EXPECT_EQ(there(), (std::vector<std::string>{"latest", checkpoint_name(1)}));
}

TEST_F(CheckpointTest, AnotherFormatIsNotRead) {
  std::string text = to_json({});
  text.replace(text.find("\"format\": 1"), 11, "\"format\": 2");
  EXPECT_STREQ(testkit::error_of([&] { read_run_state(text); }).what(), "it has format 2, and this program reads 1");
}

// ---- The thread that writes ----

class CheckpointsTest : public CheckpointTest {
 protected:
  Checkpoints::Setting setting() {
    return {.folder = folder_.path() / "made",
            .keep = 2,
            .seconds = 0,
            .tell = [this](CheckpointEvent event) { events_.push_back(std::move(event)); },
            .warn = [this](std::string text) { warnings_ += text + "\n"; }};
  }
  std::string latest() const { return pointed_to(folder_.path() / "made", "latest"); }

  std::vector<CheckpointEvent> events_;  // to be read behind wait()
};

TEST_F(CheckpointsTest, AreWrittenAndToldInOrder) {
  Checkpoints checkpoints(setting());
  for (std::uint64_t step = 1; step <= 4; ++step) checkpoints.write(checkpoint_at(step), step == 1, Checkpoints::Clock::now());
  checkpoints.finish();
  EXPECT_EQ(latest(), checkpoint_name(4));
  EXPECT_EQ(pointed_to(folder_.path() / "made", "best"), checkpoint_name(1));
  ASSERT_EQ(events_.size(), 4U);
  EXPECT_EQ(events_[3].step, 4U);
  EXPECT_EQ(events_[3].path, folder_.path() / "made" / checkpoint_name(4));
  EXPECT_GT(events_[3].bytes, 0U);
  EXPECT_GT(events_[3].seconds, 0);
  for (std::uint64_t step = 1; step <= 4; ++step) {
    EXPECT_EQ(fs::exists(folder_.path() / "made" / checkpoint_name(step)), step != 2) << step;
  }
}

TEST_F(CheckpointsTest, ADiskThatTakesNoMoreLeavesTheOldOneAndIsToldOnce) {
  Checkpoints checkpoints(setting());
  checkpoints.write(checkpoint_at(1), false, Checkpoints::Clock::now());
  checkpoints.wait();
  {
    const testkit::SmallFiles small(100);
    for (std::uint64_t step = 2; step <= 3; ++step) {
      checkpoints.write(checkpoint_at(step), false, Checkpoints::Clock::now());
      checkpoints.wait();
    }
    EXPECT_NE(warnings_.find("no checkpoint after step 2: "), std::string::npos) << warnings_;
    EXPECT_NE(warnings_.find("state.safetensors': File too large"), std::string::npos) << warnings_;
    EXPECT_EQ(std::count(warnings_.begin(), warnings_.end(), '\n'), 1) << warnings_;
    EXPECT_NE(std::string(testkit::error_of([&] { checkpoints.finish(); }).what()).find("File too large"), std::string::npos);
  }
  EXPECT_EQ(latest(), checkpoint_name(1));
  read_checkpoint(folder_.path() / "made" / checkpoint_name(1));
  int left_out = 0;
  while (checkpoints.backs_off()) ++left_out;
  EXPECT_EQ(left_out, 3) << "two attempts have failed";
  checkpoints.write(checkpoint_at(4), false, Checkpoints::Clock::now());
  checkpoints.finish();
  EXPECT_EQ(latest(), checkpoint_name(4));
  EXPECT_FALSE(checkpoints.backs_off());
  EXPECT_EQ(events_.size(), 2U);
}

TEST_F(CheckpointsTest, ValuesThatAreNotFiniteAreNeverTheNewest) {
  Checkpoints checkpoints(setting());
  checkpoints.write(checkpoint_at(1), false, Checkpoints::Clock::now());
  for (const float value : {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    Checkpoint bad = checkpoint_at(2);
    bad.tensors[1].values[3] = value;
    checkpoints.write(std::move(bad), true, Checkpoints::Clock::now());
    EXPECT_STREQ(testkit::error_of([&] { checkpoints.finish(); }).what(),
                 "the last checkpoint is not written: 'fc.weight/momentum' has values that are not finite");
  }
  const std::string warning = "no checkpoint after step 2: 'fc.weight/momentum' has values that are not finite\n";
  EXPECT_EQ(warnings_, warning + warning);
  EXPECT_EQ(latest(), checkpoint_name(1));
  EXPECT_EQ(pointed_to(folder_.path() / "made", "best"), "");
}

TEST_F(CheckpointsTest, ValuesThatAreNotFiniteDoNotMakeADiskThatFailedGood) {
  Checkpoints checkpoints(setting());
  {
    const testkit::SmallFiles small(100);
    checkpoints.write(checkpoint_at(1), false, Checkpoints::Clock::now());
    checkpoints.wait();
  }
  Checkpoint bad = checkpoint_at(2);
  bad.tensors[1].values[3] = std::numeric_limits<float>::infinity();
  checkpoints.write(std::move(bad), false, Checkpoints::Clock::now());
  checkpoints.wait();
  EXPECT_TRUE(checkpoints.backs_off()) << "the failure before it is forgotten";
}

TEST_F(CheckpointsTest, ABestOneThatTheDiskDidNotTakeIsWrittenBeforeTheNext) {
  Checkpoints checkpoints(setting());
  checkpoints.write(checkpoint_at(1), true, Checkpoints::Clock::now());
  checkpoints.wait();
  {
    const testkit::SmallFiles small(100);
    checkpoints.write(checkpoint_at(2), true, Checkpoints::Clock::now());
    checkpoints.wait();
  }
  EXPECT_EQ(pointed_to(folder_.path() / "made", "best"), checkpoint_name(1));
  EXPECT_NE(warnings_.find("; it is the best one, and waits in memory to be tried again"), std::string::npos) << warnings_;
  checkpoints.write(checkpoint_at(3), false, Checkpoints::Clock::now());
  checkpoints.finish();
  EXPECT_EQ(pointed_to(folder_.path() / "made", "best"), checkpoint_name(2));
  EXPECT_EQ(read_checkpoint(folder_.path() / "made" / checkpoint_name(2)).state.step, 2U);
  EXPECT_EQ(latest(), checkpoint_name(3));
  ASSERT_EQ(events_.size(), 3U);
  EXPECT_EQ(events_[1].step, 2U);
  EXPECT_TRUE(events_[1].best);
}

TEST_F(CheckpointsTest, ABestOneThatIsNeverWrittenIsAnErrorAndRescued) {
  Checkpoints::Setting with_rescue = setting();
  with_rescue.rescue = folder_.path() / "rescue";
  Checkpoints checkpoints(with_rescue);
  checkpoints.write(checkpoint_at(1), false, Checkpoints::Clock::now());
  checkpoints.wait();
  const fs::path made = folder_.path() / "made";
  fs::rename(made, folder_.path() / "away");  // so that no retry can succeed
  folder_.write("made", "a file");
  checkpoints.write(checkpoint_at(2), true, Checkpoints::Clock::now());
  checkpoints.wait();
  Checkpoint bad = checkpoint_at(3);
  bad.tensors[0].values[0] = std::numeric_limits<float>::quiet_NaN();
  checkpoints.write(std::move(bad), false, Checkpoints::Clock::now());
  const std::string error = testkit::error_of([&] { checkpoints.finish(); }).what();
  EXPECT_NE(error.find("the last checkpoint is not written: "), std::string::npos) << error;
  EXPECT_NE(error.find("; the best checkpoint, after step 2, is not written: cannot make '"), std::string::npos) << error;
  EXPECT_EQ(pointed_to(folder_.path() / "rescue", "best"), checkpoint_name(2)) << error;
  EXPECT_EQ(read_checkpoint(folder_.path() / "rescue" / checkpoint_name(2)).state.step, 2U);
}

TEST_F(CheckpointsTest, WhatOneStandsBehindIsOnTheDiskBeforeItIsTheNewest) {
  Checkpoints::Setting watched = setting();
  std::vector<std::string> seen;
  watched.sync = [&] {
    EXPECT_TRUE(fs::exists(folder_.path() / "made" / checkpoint_name(seen.size() + 1) / "manifest.json"));
    seen.push_back(latest());
  };
  Checkpoints checkpoints(watched);
  for (std::uint64_t step = 1; step <= 2; ++step) checkpoints.write(checkpoint_at(step), false, Checkpoints::Clock::now());
  checkpoints.finish();
  EXPECT_EQ(seen, (std::vector<std::string>{"", checkpoint_name(1)}));
}

TEST_F(CheckpointsTest, ByTimeTheyAreDueOnceAnInterval) {
  Checkpoints::Setting hours = setting();
  EXPECT_FALSE(Checkpoints(hours).is_time());
  hours.seconds = 3600;
  EXPECT_FALSE(Checkpoints(hours).is_time());
  hours.seconds = 1e-9;
  Checkpoints at_once(hours);
  EXPECT_TRUE(at_once.is_time());
}

TEST_F(CheckpointsTest, AFolderHasOneWriter) {
  {
    const Checkpoints first(setting());
    const Error error = testkit::error_of([&] { const Checkpoints second(setting()); });
    EXPECT_EQ(error.kind(), ErrorKind::usage);
    EXPECT_NE(std::string(error.what()).find("made': its run has not ended"), std::string::npos) << error.what();
  }
  EXPECT_NO_THROW(Checkpoints{setting()});
}

TEST_F(CheckpointsTest, AFolderThatCannotBeMadeIsNamed) {
  folder_.write("made", "a file");
  const Error error = testkit::error_of([&] { const Checkpoints checkpoints(setting()); });
  EXPECT_EQ(error.kind(), ErrorKind::usage);
  EXPECT_NE(std::string(error.what()).find("made' cannot be made: "), std::string::npos) << error.what();
}

}  // namespace
}  // namespace millrace::checkpoint_test

// The format on the disk, and its validation.
#include "checkpoint/checkpoint.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>

#include "checkpoint/checkpoint_fixture.h"
#include "checkpoint/checkpoint_format.h"
#include "millrace/error.h"
#include "testkit/messages.h"

namespace millrace::checkpoint_test {
namespace {

TEST_F(CheckpointTest, StateKeepsEveryBit) {
  SavedState state;
  state.step = std::numeric_limits<std::uint64_t>::max();
  state.seconds = 0.1;
  state.left.passes = {"validate"};
  state.left.run_is_over = true;
  state.so_far = {1.0 / 3, 40, 7, 0xfedcba9876543210, {{1e-300, std::numeric_limits<double>::infinity(), 2}}};
  state.so_far.sums.values.push_back(std::numeric_limits<double>::quiet_NaN());
  state.watched["run.best validate.loss"] = {0.30000000000000004, 20, 3};
  state.watched["stop.figure validate.loss"] = {{}, 0, 1};
  state.watched["plateau.figure validate.loss"] = {{}, 0, 0, 4};
  state.batch_size = 80;
  state.stages["optimizer"] = "12";
  state.batches = {{0xfedcba9876543210, 1}, {2, std::numeric_limits<std::uint64_t>::max()}};
  state.data = {{"train.read", {240, {"circle", "ring"}, {100, 140}, 0xfedcba9876543210}}, {"validate.read", {60, {}}}};
  state.bad_samples = 12;
  state.bad_and_ahead = {{"train", 3, 17, 1}};
  state.metadata["plans"] = "{\"a\": \"\\n\"}";
  state.versions = {{"Millrace", "0.1.0"}, {"cpu oneDNN", "2.6.3"}};
  state.network = "layers = [ { op = \"relu\" } ]\n";
  const SavedState read = read_saved_state(to_json(state));
  EXPECT_EQ(to_json(read), to_json(state));
  EXPECT_EQ(read.step, state.step);
  EXPECT_EQ(read.batch_size, 80U);
  EXPECT_EQ(read.so_far.stream_hash, state.so_far.stream_hash);
  EXPECT_EQ(read.so_far.seconds, state.so_far.seconds);
  EXPECT_EQ(read.so_far.sums.values[1], state.so_far.sums.values[1]);
  EXPECT_TRUE(std::isnan(read.so_far.sums.values[3]));
  EXPECT_EQ(read.watched.at("run.best validate.loss").best, 0.30000000000000004);
  EXPECT_FALSE(read.watched.at("stop.figure validate.loss").best);
  EXPECT_EQ(read.watched.at("plateau.figure validate.loss").cooldown, 4U);
  EXPECT_EQ(read.metadata, state.metadata);
  EXPECT_EQ(read.versions, state.versions);
  EXPECT_EQ(read.network, state.network);
  EXPECT_EQ(read.batches, state.batches);
  EXPECT_EQ(read.data.at("train.read").classes, (std::vector<std::string>{"circle", "ring"}));
  EXPECT_EQ(read.data.at("train.read").class_counts, (std::vector<std::uint64_t>{100, 140}));
  EXPECT_EQ(read.data.at("train.read").listing_hash, 0xfedcba9876543210);
  EXPECT_EQ(read.data.at("validate.read").samples, 60U);
  EXPECT_FALSE(read.data.at("validate.read").listing_hash) << "as older checkpoints have it";
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
  EXPECT_MESSAGE(warnings_);
}

TEST_F(CheckpointTest, WithoutItsManifestItIsNotBelieved) {
  write(1);
  write(2);
  const std::string manifest = folder_ / (checkpoint_name(2) + "/manifest.json");
  std::ofstream(manifest) << R"({"files": []})";
  EXPECT_EQ(newest(), checkpoint_name(1));
  EXPECT_MESSAGE(warnings_);
  std::ofstream(manifest) << R"({"files": [)";
  EXPECT_EQ(newest(), checkpoint_name(1));
  EXPECT_MESSAGE(warnings_);
  fs::remove(manifest);
  EXPECT_EQ(newest(), checkpoint_name(1));
  EXPECT_MESSAGE(warnings_);
  fs::remove_all(folder_.path() / checkpoint_name(1));
  EXPECT_EQ(newest(), "none");
}

// As on a failing disk: the name exists, but reading fails.
TEST_F(CheckpointTest, AManifestThatCannotBeReadIsNotBelieved) {
  write(1);
  write(2);
  const fs::path manifest = folder_.path() / checkpoint_name(2) / "manifest.json";
  fs::remove(manifest);
  fs::create_directory(manifest);
  EXPECT_EQ(newest(), checkpoint_name(1));
  EXPECT_MESSAGE(warnings_);
}

// As on a server that is temporarily away (ESTALE): the file may be whole, and resuming from an older one would lose it.
TEST_F(CheckpointTest, AFileOfWhichNothingIsKnownIsAnErrorAndNoDamage) {
  write(1);
  write(2);
  const fs::path file = folder_.path() / checkpoint_name(2) / "state.json";
  fs::remove(file);
  fs::create_symlink(file, file);
  EXPECT_MESSAGE(testkit::error_of(ErrorKind::storage, [&] { newest(); }).what());
}

// Falling back to the newest name could pick an abandoned branch.
TEST_F(CheckpointTest, APointerThatCannotBeReadIsAnError) {
  write(1);
  write_checkpoint(folder_.path(), checkpoint_at(2));
  fs::remove(folder_.path() / "latest");
  fs::create_directory(folder_.path() / "latest");
  EXPECT_MESSAGE(testkit::error_of([&] { newest(); }).message());
}

TEST_F(CheckpointTest, AFolderThatCannotBeReadIsAnErrorAndOneThatIsNotThereIsEmpty) {
  EXPECT_FALSE(newest_checkpoint(folder_.path() / "nowhere", [](const std::string& text) { ADD_FAILURE() << text; }));
  const fs::path loop = folder_.path() / "loop";
  fs::create_symlink(loop, loop);
  EXPECT_MESSAGE(testkit::error_of(ErrorKind::run, [&] { newest_checkpoint(loop, {}); }).what());
}

TEST_F(CheckpointTest, WhatAUserPutsBesideThemStays) {
  for (const char* name :
       {"step-000000001-keep", "step-x", "step-1", "step-000000001.", "step-000000001.b", ".mine", "a.new-b"}) {
    fs::create_directory(folder_.path() / name);
  }
  write(2);
  write(3);
  const auto before = there();
  EXPECT_EQ(checkpoint_names(folder_.path()), (std::vector<std::string>{checkpoint_name(3), checkpoint_name(2)}));
  tidy_checkpoints(folder_.path(), checkpoint_name(3), 2);
  EXPECT_EQ(there(), before);
  EXPECT_TRUE(is_checkpoint_name("step-000000001.2"));
  EXPECT_TRUE(is_checkpoint_name(checkpoint_name(12'345'678'901)));
}

// A writer killed between the two leaves a whole folder, and `latest` names the one before.
TEST_F(CheckpointTest, LatestSaysWhichIsTheNewest) {
  write(1);
  write_checkpoint(folder_.path(), checkpoint_at(2));
  EXPECT_EQ(newest(), checkpoint_name(1));
  EXPECT_EQ(warnings_, "");
  fs::remove(folder_.path() / "latest");
  EXPECT_EQ(newest(), checkpoint_name(2));
  point_to(folder_.path(), "latest", checkpoint_name(9));
  EXPECT_EQ(newest(), checkpoint_name(2));
  EXPECT_MESSAGE(warnings_);
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
  tidy_checkpoints(folder_.path(), checkpoint_name(5), 2);  // 6 belongs to a run that continued after 4
  EXPECT_EQ(there(), (std::vector<std::string>{"best", "latest", checkpoint_name(2), checkpoint_name(4), checkpoint_name(5)}));
}

TEST_F(CheckpointTest, KeepsTheFirstBehindEachPeriodForEver) {
  for (const std::uint64_t step : {300, 600, 900, 1200, 1500, 1800, 2100, 2400}) {
    write(step);
    tidy_checkpoints(folder_.path(), checkpoint_name(step), 1, [](std::uint64_t at) { return at / 1000; });
  }
  EXPECT_EQ(there(), (std::vector<std::string>{"latest", checkpoint_name(1200), checkpoint_name(2100), checkpoint_name(2400)}));
}

// Left by a writer killed on a file system that cannot exchange two names.
TEST_F(CheckpointTest, AreOrderedByTheirStepsAndNotByTheirNames) {
  const std::vector<std::string> names = {"step-1000000000", "step-999999999", "step-000000005.10", "step-000000005.2"};
  EXPECT_TRUE(std::ranges::is_sorted(names, std::greater(), order_of_checkpoint));
  EXPECT_EQ(checkpoints_to_remove(names, names[0], "", 2, {}), (std::vector<std::string>{names[2], names[3]}));
}

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
  EXPECT_MESSAGE(testkit::error_of([&] { read_saved_state(text); }).what());
}

TEST_F(CheckpointTest, APointerThatIsNoFileIsRefused) {
  write(1);
  fs::remove(folder_.path() / "latest");
  ASSERT_EQ(::mkfifo((folder_ / "latest").c_str(), 0600), 0);
  const Error error = testkit::error_of([&] { newest(); });
  EXPECT_MESSAGE(error.what());
}

}  // namespace
}  // namespace millrace::checkpoint_test

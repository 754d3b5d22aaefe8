// Checkpoints in a storage that fails at any call: the last one announced is never lost.
#include "checkpoint/checkpoint_place.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>

#include "checkpoint/checkpoint_writer.h"
#include "millrace/error.h"
#include "millrace/sample.h"
#include "testkit/files.h"
#include "testkit/messages.h"

namespace millrace::checkpoint_place_test {
namespace {

const std::string kUrl = "held://bucket/runs/x/2026-01-01";

// Objects in memory. Counts the calls that may fail; those from `fails_from` up to `fails_until` do.
class HeldObjects final : public Storage {
 public:
  void list(const std::string& url, const std::function<void(Object)>& found) override {
    call("list", url);
    for (const auto& [name, bytes] : objects) {
      if (name.starts_with(url + "/")) found({name.substr(url.size() + 1), bytes.size(), {}});
    }
  }
  Object stat(const std::string& url) override { return {url, at(url).size(), {}}; }
  void read(const std::string& url, ByteBuffer& out) override {
    call("read", url);
    const std::string& bytes = at(url);
    std::memcpy(out.resize(bytes.size()), bytes.data(), bytes.size());
  }
  void read(const std::string& url, std::uint64_t offset, std::size_t size, std::uint8_t* out) override {
    std::memcpy(out, at(url).data() + offset, size);
  }
  std::unique_ptr<Writer> write(const std::string& url) override { return std::make_unique<HeldWriter>(*this, url); }
  void remove(const std::string& url) override {
    call("remove", url);
    objects.erase(url);
  }
  bool is_empty(const std::string& url) override {
    call("list", url);
    return std::ranges::none_of(objects, [&](const auto& each) { return each.first.starts_with(url + "/"); });
  }

  std::map<std::string, std::string> objects;
  int calls = 0, fails_from = 0, fails_until = 0;
  std::string spoiled;  // objects with this suffix lose a bit in transfer

 private:
  class HeldWriter final : public Writer {
   public:
    HeldWriter(HeldObjects& storage, std::string url) : storage_(storage), url_(std::move(url)) {}
    void write(const void* data, std::size_t bytes) override { bytes_.append(static_cast<const char*>(data), bytes); }
    void commit() override {
      storage_.call("write", url_);
      std::string& object = storage_.objects[url_] = bytes_;
      if (!storage_.spoiled.empty() && url_.ends_with(storage_.spoiled)) object[object.size() / 2] ^= 1;
    }

   private:
    HeldObjects& storage_;
    const std::string url_;
    std::string bytes_;
  };

  void call(const char* verb, const std::string& url) {
    const int number = calls++;
    if (number >= fails_from && number < fails_until) fail(ErrorKind::storage, "cannot {} '{}': no answer", verb, url);
  }
  const std::string& at(const std::string& url) const {
    const auto found = objects.find(url);
    if (found == objects.end()) fail(ErrorKind::data, "cannot read '{}': no such object", url);
    return found->second;
  }
};

Checkpoint made_at(std::uint64_t step) {
  Checkpoint checkpoint;
  checkpoint.state.step = step;
  checkpoint.tensors = {{"fc.weight/value", {2, 2}, std::vector<float>(4, static_cast<float>(step))}};
  checkpoint.pipeline = "[run]\nseed = 1\n";
  return checkpoint;
}

class CheckpointPlaceTest : public testing::Test {
 protected:
  CheckpointWriter::Setting setting() {
    return {.folder = kUrl,
            .storage = &storage_,
            .lock = folder_.path() / "run",
            .keep = 2,
            .report = [this](CheckpointEvent event) { told_.push_back(std::move(event)); },
            .warn = [this](std::string text) { warnings_ += text + "\n"; }};
  }
  // Writes steps `first` to `last`; the first is the best. Returns the final error, or "".
  std::string write_all(std::uint64_t first, std::uint64_t last) {
    try {
      CheckpointWriter checkpoints(setting());
      for (std::uint64_t step = first; step <= last; ++step) {
        checkpoints.write(made_at(step), step == first, CheckpointWriter::Clock::now());
        checkpoints.wait();
      }
      checkpoints.finish();
    } catch (const Error& error) {
      return error.what();
    }
    return {};
  }
  std::unique_ptr<CheckpointPlace> place() { return checkpoint_place(kUrl, &storage_); }
  // The step of the newest checkpoint, whose contents must match; 0 if there is none.
  std::uint64_t newest() {
    const auto found = place()->newest([this](std::string text) { warnings_ += text + "\n"; });
    if (!found) return 0;
    const std::uint64_t step = found->checkpoint.state.step;
    EXPECT_EQ(found->checkpoint.tensors.at(0).values, std::vector<float>(4, static_cast<float>(step)));
    EXPECT_EQ(found->checkpoint.pipeline, "[run]\nseed = 1\n");
    return step;
  }
  std::vector<std::string> folders() const {
    std::vector<std::string> names;
    for (const auto& [name, bytes] : storage_.objects) {
      const std::string below = name.substr(kUrl.size() + 1);
      const std::size_t slash = below.find('/');
      if (slash != std::string::npos && (names.empty() || names.back() != below.substr(0, slash)))
        names.push_back(below.substr(0, slash));
    }
    return names;
  }
  std::uint64_t announced() const { return told_.empty() ? 0 : told_.back().step; }
  void start_again() {
    storage_ = {};
    told_.clear();
    warnings_.clear();
  }

  const testkit::TestFolder folder_;
  HeldObjects storage_;
  std::vector<CheckpointEvent> told_;
  std::string warnings_;
};

TEST_F(CheckpointPlaceTest, WhatReadsBackOtherThanItWasWrittenIsNoCheckpoint) {
  EXPECT_EQ(write_all(1, 1), "");
  for (const char* file : {"state.safetensors", "state.json", "pipeline.toml", "manifest.json"}) {
    storage_.spoiled = file;
    EXPECT_NE(write_all(2, 2).find(std::string(file) + "' differs from what was written"), std::string::npos) << file;
    EXPECT_EQ(storage_.objects.at(kUrl + "/latest"), "step-000000001\n");
    EXPECT_EQ(newest(), 1U);
  }
  storage_.spoiled.clear();
  EXPECT_EQ(write_all(2, 2), "");
  EXPECT_EQ(newest(), 2U);
}

TEST_F(CheckpointPlaceTest, AStorageHoldsTheNewestTheBestAndWhereTheyAre) {
  EXPECT_EQ(write_all(1, 4), "");
  EXPECT_EQ(warnings_, "");
  EXPECT_EQ(folders(), (std::vector<std::string>{"step-000000001", "step-000000003", "step-000000004"}));
  EXPECT_EQ(storage_.objects.at(kUrl + "/latest"), "step-000000004\n");
  EXPECT_EQ(place()->pointed_to("best"), "step-000000001");
  ASSERT_EQ(told_.size(), 4U);
  EXPECT_EQ(told_[3].path.string(), kUrl + "/step-000000004");
  EXPECT_GT(told_[3].bytes, 0U);
  EXPECT_EQ(newest(), 4U);
}

TEST_F(CheckpointPlaceTest, AKillAtAnyCallLeavesTheOneThatWasAnnouncedLast) {
  EXPECT_EQ(write_all(1, 5), "");
  const int all = storage_.calls;
  ASSERT_GT(all, 40);
  for (int killed = 0; killed < all; ++killed) {
    start_again();
    storage_.fails_from = killed;
    storage_.fails_until = 1 << 30;
    const std::string end = write_all(1, 5);
    EXPECT_TRUE(!end.empty() || announced() == 5) << killed;
    storage_.fails_until = 0;
    const std::uint64_t found = newest();
    EXPECT_GE(found, announced()) << "killed at call " << killed << ": " << warnings_;
    if (found == 0) continue;
    place()->remove_unfinished(told_.empty() ? "" : told_.back().path.filename().string());
    EXPECT_EQ(newest(), found) << killed;
    EXPECT_EQ(write_all(found, found + 3), "") << killed;  // including the same step again
    EXPECT_EQ(newest(), found + 3) << killed;
    EXPECT_LE(folders().size(), 4U) << "killed at call " << killed << ": nothing but the newest two and best ones stays";
  }
}

TEST_F(CheckpointPlaceTest, AFaultThatPassesCostsACheckpointAtMost) {
  EXPECT_EQ(write_all(1, 4), "");
  const int all = storage_.calls;
  const int opening = 1;  // must not fail: a run that cannot write checkpoints does not begin
  for (int call = opening; call < all; ++call) {
    start_again();
    storage_.fails_from = call;
    storage_.fails_until = call + 1;
    const std::string end = write_all(1, 4);
    EXPECT_GE(newest(), std::max<std::uint64_t>(announced(), 3)) << call << ": " << warnings_;
    EXPECT_EQ(std::count(warnings_.begin(), warnings_.end(), '\n'), 1) << call << ": " << warnings_;
    EXPECT_NE(warnings_.find(": no answer"), std::string::npos) << warnings_;
    if (announced() < 4) {
      EXPECT_NE(end.find("the last checkpoint was not written: "), std::string::npos) << call << ": " << end;
    }
  }
}

TEST_F(CheckpointPlaceTest, AStorageThatTakesNothingIsFoundBeforeTheFirstStep) {
  storage_.fails_until = 1;
  EXPECT_MESSAGE(testkit::error_of(ErrorKind::storage, [&] { const CheckpointWriter checkpoints(setting()); }).what());
  EXPECT_NO_THROW(CheckpointWriter{setting()}) << "the run's folder is not locked any more";
}

TEST_F(CheckpointPlaceTest, TheLastOneIsRescued) {
  CheckpointWriter::Setting rescued = setting();
  rescued.rescue = folder_.path() / "rescued";
  CheckpointWriter checkpoints(std::move(rescued));
  storage_.fails_until = 1 << 30;
  checkpoints.write(made_at(7), false, CheckpointWriter::Clock::now());
  const Error error = testkit::error_of([&] { checkpoints.finish(); });
  EXPECT_NE(std::string(error.what()).find("step-000000007' instead"), std::string::npos) << error.what();
  EXPECT_EQ(read_checkpoint(folder_.path() / "rescued" / "step-000000007").state.step, 7U);
  EXPECT_EQ(checkpoints.rescued(), folder_.path() / "rescued" / "step-000000007");
}

TEST_F(CheckpointPlaceTest, ADamagedOneIsNamedAndTheOneBeforeIsTaken) {
  EXPECT_EQ(write_all(1, 4), "");
  std::string& tensors = storage_.objects.at(kUrl + "/step-000000004/state.safetensors");
  tensors.back() = static_cast<char>(tensors.back() ^ 1);
  EXPECT_EQ(newest(), 3U);
  EXPECT_MESSAGE(warnings_);
  storage_.objects.erase(kUrl + "/step-000000003/state.json");
  EXPECT_EQ(newest(), 1U);
  storage_.fails_from = storage_.calls + 4;  // while the newest one is read: this does not show damage
  storage_.fails_until = 1 << 30;
  EXPECT_EQ(testkit::error_of([&] { newest(); }).kind(), ErrorKind::storage);
}

}  // namespace
}  // namespace millrace::checkpoint_place_test

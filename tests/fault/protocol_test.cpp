// The newest announced checkpoint is found, whole, after a kill at any call and after a power failure at any moment.
#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <random>

#include "checkpoint/checkpoint.h"
#include "pipelines/command.h"
#include "replay_disk.h"

namespace millrace::test {
namespace {

namespace fs = std::filesystem;

int number_of(const std::string& text) { return text.empty() ? 0 : std::atoi(text.c_str()); }

class ProtocolTest : public testing::Test {
 protected:
  // The writer's calls, on a file system with or without an exchange of names.
  std::vector<LoggedCall> written(bool exchanges) const {
    const std::string disk = folder_ / "disk", log = folder_ / "log";
    fs::create_directory(disk);
    const Outcome outcome =
        run_command({"/usr/bin/env", fmt::format("LD_PRELOAD={}", FAULT_FILES), fmt::format("FAULT_FILES_FOLDER={}", disk),
                     fmt::format("FAULT_FILES_LOG={}", log), "FAULT_FILES_AT=1-",
                     exchanges ? "FAULT_FILES_DO=" : "FAULT_FILES_DO=EINVAL", WRITE_CHECKPOINTS, disk});
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_EQ(outcome.err, "");
    return read_log(log);
  }

  // A missing folder if the disk has none.
  static fs::path checkpoints_in(const fs::path& disk) {
    std::error_code ignored;
    for (const auto& entry : fs::recursive_directory_iterator(disk, ignored)) {
      if (entry.is_directory() && entry.path().filename() == "checkpoints") return entry.path();
    }
    return disk / "checkpoints";
  }

  // "" if the disk keeps the guarantees; else the violation.
  std::string judge(int announced) const {
    const fs::path checkpoints = checkpoints_in(left_);
    std::string warnings;
    const auto found = newest_checkpoint(checkpoints, [&](const std::string& text) { warnings.append(text).append("\n"); });
    const std::string latest = pointed_to(checkpoints, "latest");
    if (!latest.empty() && !warnings.empty()) return fmt::format("'latest' names one that is not whole: {}", warnings);
    if (announced == 0) return {};
    if (!found) return fmt::format("generation {} was announced, and none is found: {}", announced, warnings);
    const std::string text = found->checkpoint.pipeline;
    const int generation = number_of(text.substr(text.find('=') + 1));
    if (generation >= announced) return {};
    return fmt::format("generation {} was announced, and {} is found in '{}'", announced, generation, found->path.string());
  }

  static int announced_before(const std::vector<LoggedCall>& calls, std::size_t cut) {
    int announced = 0;
    for (std::size_t at = 0; at < cut; ++at) {
      if (calls[at].call == "mark") announced = number_of(calls[at].path);
    }
    return announced;
  }

  // The first violation, or "".
  std::string lose_power(const std::vector<LoggedCall>& calls, int times) const {
    const ReplayDisk disk(calls);
    for (int seed = 0; seed < times; ++seed) {
      std::mt19937_64 random(static_cast<std::uint64_t>(seed));
      const std::size_t cut = std::uniform_int_distribution<std::size_t>(0, calls.size())(random);
      fs::remove_all(left_);
      disk.after_power_loss(cut, random, left_);
      const std::string wrong = judge(announced_before(calls, cut));
      if (!wrong.empty()) return fmt::format("seed {}, power lost after call {}: {}", seed, cut, wrong);
    }
    return {};
  }

  // The calls of a program without these syncs.
  static std::vector<LoggedCall> without_syncs(const std::vector<LoggedCall>& calls, bool of_folders, bool of_files) {
    std::map<int, bool> is_folder;
    std::vector<LoggedCall> left;
    for (const LoggedCall& call : calls) {
      if (call.call == "open" && call.error == 0) is_folder[call.descriptor] = (call.flags & O_DIRECTORY) != 0;
      const bool folder = call.call == "fsync" && is_folder[call.descriptor];
      if (call.call != "fsync" || !(folder ? of_folders : of_files)) left.push_back(call);
    }
    return left;
  }

  static int times() {
    const char* const wanted = std::getenv("MILLRACE_POWER_LOSSES");
    return wanted == nullptr ? 1000 : std::atoi(wanted);
  }

  const TemporaryFolder folder_;
  const MemoryFolder memory_;
  const fs::path& left_ = memory_.path();
};

class EitherProtocol : public ProtocolTest, public testing::WithParamInterface<bool> {};
INSTANTIATE_TEST_SUITE_P(FileSystem, EitherProtocol, testing::Values(true, false),
                         [](const auto& test) { return test.param ? "that_exchanges_names" : "that_does_not"; });

TEST_P(EitherProtocol, KilledAtAnyCallTheNewestIsFound) {
  const std::vector<LoggedCall> calls = written(GetParam());
  ASSERT_EQ(announced_before(calls, calls.size()), 7);
  const ReplayDisk disk(calls);
  for (std::size_t cut = 0; cut <= calls.size(); ++cut) {
    const bool same = cut > 0 && (calls[cut - 1].error != 0 || calls[cut - 1].call == "close" || calls[cut - 1].call == "fsync");
    if (same) continue;  // nothing changed
    fs::remove_all(left_);
    disk.after_kill(cut, left_);
    ASSERT_EQ(judge(announced_before(calls, cut)), "") << "killed after call " << cut;
  }
}

TEST_P(EitherProtocol, AfterALossOfPowerTheNewestIsFound) { EXPECT_EQ(lose_power(written(GetParam()), times()), ""); }

// The model is useful only if it detects this.
TEST_F(ProtocolTest, AProtocolWithoutItsSyncsIsFoundOut) {
  const std::vector<LoggedCall> calls = written(true);
  EXPECT_NE(lose_power(without_syncs(calls, true, true), 1000), "") << "no sync at all";
  EXPECT_NE(lose_power(without_syncs(calls, true, false), 1000), "") << "no sync of folders";
  EXPECT_NE(lose_power(without_syncs(calls, false, true), 1000), "") << "no sync of files";
}

// The model's final state equals the disk's, so it has seen every call that changes something.
TEST_F(ProtocolTest, TheModelEndsAsTheDiskDoes) {
  const std::vector<LoggedCall> calls = written(true);
  ReplayDisk(calls).after_kill(calls.size(), left_);
  std::size_t files = 0;
  for (const auto& entry : fs::recursive_directory_iterator(folder_.path() / "disk")) {
    const fs::path twin = left_ / fs::relative(entry.path(), folder_.path() / "disk");
    ASSERT_TRUE(fs::exists(twin)) << twin;
    if (!entry.is_regular_file()) continue;
    EXPECT_TRUE(read_file(entry.path()) == read_file(twin)) << twin;
    ++files;
  }
  std::size_t twins = 0;
  for (const auto& entry : fs::recursive_directory_iterator(left_)) twins += entry.is_regular_file() ? 1 : 0;
  EXPECT_EQ(files, twins);
  EXPECT_GT(files, 8U);
}

}  // namespace
}  // namespace millrace::test

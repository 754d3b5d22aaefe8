#include "journal.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <thread>

namespace millrace::gpu {
namespace {

namespace fs = std::filesystem;

class JournalFile : public testing::Test {
 protected:
  JournalFile() { fs::remove(file_); }
  ~JournalFile() override { fs::remove(file_); }
  void append(const std::string& bytes) { std::ofstream(file_, std::ios::app) << bytes; }
  const fs::path file_ = fs::path(testing::TempDir()) / fmt::format("millrace_journal_test_{}.jsonl", getpid());
};

TEST_F(JournalFile, IsReadFromWhereTheLastReaderStopped) {
  Journal journal(file_);
  std::uintmax_t offset = 0;
  EXPECT_TRUE(read_events(file_, offset).empty());
  journal.add({{"event", "begin"}, {"part", "agreement"}});
  ASSERT_EQ(read_events(file_, offset).size(), 1U);
  EXPECT_TRUE(read_events(file_, offset).empty());
  journal.add({{"event", "end"}, {"part", "agreement"}});
  const auto events = read_events(file_, offset);
  ASSERT_EQ(events.size(), 1U);
  EXPECT_EQ(events[0]["event"], "end");
  EXPECT_GT(events[0]["time"].get<double>(), 1.7e9);
}

TEST_F(JournalFile, WaitsForTheEndOfALine) {
  append(R"({"event": "begin"})");
  std::uintmax_t offset = 0;
  EXPECT_TRUE(read_events(file_, offset).empty());
  append("\n");
  EXPECT_EQ(read_events(file_, offset).size(), 1U);
}

TEST_F(JournalFile, LosesOnlyTheLineThatAKilledProcessLeft) {
  append("{\"event\": \"begin\"}\n{\"event\": \"te");
  Journal(file_).add({{"event", "start"}});
  const auto events = read_events(file_);
  ASSERT_EQ(events.size(), 2U);
  EXPECT_EQ(events[1]["event"], "start");
}

TEST_F(JournalFile, TakesBytesThatAreNotText) {
  Journal(file_).add({{"event", "test"}, {"text", "caf\xe9"}});
  EXPECT_EQ(read_events(file_).size(), 1U);
}

TEST_F(JournalFile, KeepsTheLinesOfSeveralThreadsApart) {
  constexpr int kThreads = 4, kLines = 200;
  Journal journal(file_);
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&] {
      Report report(journal, "agreement");
      for (int i = 0; i < kLines; ++i) report.row(std::string(300, 'x'), "1");
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(read_events(file_).size(), static_cast<std::size_t>(kThreads * kLines));
}

}  // namespace
}  // namespace millrace::gpu

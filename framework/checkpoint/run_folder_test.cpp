#include "checkpoint/run_folder.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <vector>

#include "testkit/files.h"
#include "testkit/messages.h"

namespace millrace::run_name_test {
namespace {

TEST(RunName, OnlyWhatARunGetsIsAName) {
  for (const std::string name : {"2026-01-01T00-00-00", "2026-01-01T00-00-00-2", "2026-01-01T00-00-00-10"}) {
    const auto read = read_run_name(name);
    ASSERT_TRUE(read) << name;
    EXPECT_EQ(read->text(), name);
  }
  const std::string made = run_name_at(1'700'000'000).text();
  EXPECT_TRUE(read_run_name(made)) << made;
  for (const std::string name : {"", "best-run-2025", "2026-01-01", "2026-01-01T00-00-0", "2026-01-01T00-00-00_backup",
                                 "2026-01-01T00-00-00-", "2026-01-01T00-00-00-1", "2026-01-01T00-00-00-02",
                                 "2026-01-01T00-00-00-x", "2026-01-01T00-00-00 2", "2026-01-01T00-00-00-2-old",
                                 "2026-01-01T00-00-00-99999999999999999999", "2026-01-01t00-00-00", "old-2026-01-01T00-00-00"}) {
    EXPECT_FALSE(read_run_name(name)) << name;
  }
}

TEST(RunName, TheNumberCountsAsOneAndOtherNamesAreTheOldest) {
  std::vector<std::string> names = {"2026-01-01T00-00-00-9", "zzz", "2026-01-01T00-00-00", "2026-01-01T00-00-01",
                                    "2026-01-01T00-00-00-10"};
  std::ranges::sort(names, [](const std::string& a, const std::string& b) { return read_run_name(a) > read_run_name(b); });
  EXPECT_EQ(names, (std::vector<std::string>{"2026-01-01T00-00-01", "2026-01-01T00-00-00-10", "2026-01-01T00-00-00-9",
                                             "2026-01-01T00-00-00", "zzz"}));
}

TEST(RunName, IsInUtc) { EXPECT_EQ(run_name_at(1'700'000'000).text(), "2023-11-14T22-13-20"); }

TEST(RunName, ANewRunIsTheNewestThoughTheClockWasSetBack) {
  constexpr std::time_t kNow = 1'700'000'000;
  const auto next = [](const std::vector<RunName>& there) { return next_run_name(kNow, there).text(); };
  EXPECT_EQ(next({}), "2023-11-14T22-13-20");
  EXPECT_EQ(next({{"2023-11-14T22-13-19", 7}}), "2023-11-14T22-13-20");
  EXPECT_EQ(next({{"2023-11-14T22-13-20"}}), "2023-11-14T22-13-20-2");
  EXPECT_EQ(next({{"2023-11-14T23-13-20", 3}, {"2023-11-14T22-50-00"}}), "2023-11-14T23-13-20-4") << "local time of before";
  EXPECT_EQ(next({{"2038-01-01T00-00-00"}}), "2023-11-14T22-13-20") << "a clock that was wrong by years";
}

TEST(Latest, SaysWhyItDoesNotLeadToTheRun) {
  namespace fs = std::filesystem;
  const testkit::TestFolder folder;
  const fs::path newer = folder / "2026-01-02T00-00-00", older = folder / "2026-01-01T00-00-00", latest = folder / "latest";
  EXPECT_EQ(latest_run(folder.path()), "");
  EXPECT_EQ(point_latest_to(older), "");
  EXPECT_EQ(latest_run(folder.path()), "2026-01-01T00-00-00");
  const fs::path in_the_way = folder / ".latest-2026-01-02T00-00-00";  // as on a file system without links
  fs::create_directories(in_the_way / "x");
  const std::string said = fmt::format("'{}' does not link to this run, '{}': ", latest.string(), newer.string());
  EXPECT_MESSAGE(point_latest_to(newer));
  fs::remove_all(in_the_way);
  EXPECT_EQ(point_latest_to(newer), "");
  fs::remove(latest);
  fs::create_directory(latest);
  EXPECT_MESSAGE(point_latest_to(newer));
  EXPECT_TRUE(fs::is_directory(fs::symlink_status(latest)));
}

}  // namespace
}  // namespace millrace::run_name_test

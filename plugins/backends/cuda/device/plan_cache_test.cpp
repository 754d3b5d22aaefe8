#include "plan_cache.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <vector>

namespace millrace::cuda {
namespace {

namespace fs = std::filesystem;

class PlanCacheTest : public testing::Test {
 protected:
  PlanCacheTest() { fs::remove_all(folder_); }
  ~PlanCacheTest() override { fs::remove_all(folder_); }

  PlanCache open() {
    return PlanCache(file_, [this](std::string_view message) { warnings_.emplace_back(message); });
  }
  void overwrite(const std::string& bytes) const {
    fs::create_directories(folder_);
    std::ofstream(file_, std::ios::binary) << bytes;
  }

  const fs::path folder_ = fs::path(testing::TempDir()) / ("plan_cache." + std::to_string(getpid()));
  const fs::path file_ = folder_ / "plans" / "device";
  std::vector<std::string> warnings_;
};

TEST_F(PlanCacheTest, KeepsAnyBytesForTheNextProcess) {
  const std::string bytes("{\"engine\":1}\n\0\xff end", 18);
  {
    PlanCache cache = open();
    cache.put("a", bytes);
    cache.put("key with\nlines", "");
    cache.put("a", bytes + "2");
  }
  const PlanCache again = open();
  EXPECT_EQ(again.find("a"), bytes + "2");
  EXPECT_EQ(again.find("key with\nlines"), "");
  EXPECT_EQ(again.find("b"), std::nullopt);
  EXPECT_TRUE(warnings_.empty());
}

TEST_F(PlanCacheTest, WithoutAFileKeepsThingsInMemory) {
  PlanCache cache;
  cache.put("a", "1");
  EXPECT_EQ(cache.find("a"), "1");
}

TEST_F(PlanCacheTest, PassesOverAnEntryThatWasCutShort) {
  const std::string first = encode_plan("first", "one"), second = encode_plan("second", "two\nlines"),
                    third = encode_plan("third", "");
  for (std::size_t end = 0; end + 1 < second.size(); ++end) {  // without its last line end the next read would find it complete
    const std::string cut = '\n' + first + '\n' + second.substr(0, end);
    EXPECT_EQ(read_plans(cut), (std::map<std::string, std::string>{{"first", "one"}})) << end;
    const auto followed = read_plans(cut + '\n' + third);  // followed by another process's entry
    EXPECT_EQ(followed, (std::map<std::string, std::string>{{"first", "one"}, {"third", ""}})) << end;
  }
}

TEST_F(PlanCacheTest, ReadsNoDamage) {
  const std::string whole = encode_plan("first", "one") + encode_plan("second", "two");
  for (std::size_t i = 0; i + 1 < whole.size(); ++i) {
    std::string changed = whole;
    changed[i] = static_cast<char>(changed[i] ^ 1);
    for (const auto& [key, text] : read_plans(changed)) {
      EXPECT_TRUE((key == "first" && text == "one") || (key == "second" && text == "two")) << i;
    }
  }
}

TEST_F(PlanCacheTest, TheLastOfEqualKeysCounts) {
  {
    PlanCache one = open(), two = open();
    one.put("a", "1");
    two.put("a", "2");
    one.put("a", "3");
  }
  EXPECT_EQ(open().find("a"), "3");
}

TEST_F(PlanCacheTest, WritesWhatIsNewAndNothingElse) {
  PlanCache cache = open();
  cache.put("a", "1");
  const auto size = fs::file_size(file_);
  cache.put("a", "1");
  EXPECT_EQ(fs::file_size(file_), size);
  cache.put("b", "2");
  EXPECT_EQ(fs::file_size(file_), size + 1 + encode_plan("b", "2").size());
}

TEST(PlanText, NoDamageIsRead) {
  const std::string whole = encode_plans({{"first", "one"}, {"second", "two"}});
  ASSERT_TRUE(decode_plans(whole));
  for (std::size_t end = 0; end < whole.size(); ++end) {  // cut at an entry's end it is a smaller valid file
    const auto cut = decode_plans(whole.substr(0, end));
    EXPECT_TRUE(!cut || cut->size() < 2) << end;
  }
  for (std::size_t i = 0; i < whole.size(); ++i) {
    std::string changed = whole;
    changed[i] = static_cast<char>(changed[i] ^ 1);
    EXPECT_FALSE(decode_plans(changed)) << i;
  }
  EXPECT_FALSE(decode_plans("millrace plans 1\n18446744073709551615 1 0\nab\n"));
}

TEST_F(PlanCacheTest, AddsToAFileOfSomethingElse) {
  overwrite("no plans at all");
  {
    PlanCache cache = open();
    EXPECT_EQ(cache.find("a"), std::nullopt);
    cache.put("a", "1");
  }
  EXPECT_EQ(open().find("a"), "1");
  EXPECT_TRUE(warnings_.empty());
}

TEST_F(PlanCacheTest, AFolderThatCannotBeWrittenCostsOneWarning) {
  fs::create_directories(folder_);
  std::ofstream(folder_ / "plans") << "a file where the folder should be";
  PlanCache cache = open();
  cache.put("a", "1");
  cache.put("b", "2");
  EXPECT_EQ(cache.find("a"), "1");
  ASSERT_EQ(warnings_.size(), 1U);
  EXPECT_EQ(warnings_[0], "choices of engines cannot be kept in '" + file_.string() + "', and are made again in each run");
}

TEST_F(PlanCacheTest, ProcessesAddToEachOthersChoices) {
  PlanCache one = open(), two = open();
  one.put("a", "1");
  two.put("b", "2");
  one.put("c", "3");
  const PlanCache third = open();
  EXPECT_EQ(third.find("a"), "1");
  EXPECT_EQ(third.find("b"), "2");
  EXPECT_EQ(third.find("c"), "3");
}

// Entries of very different sizes, so that partial or mixed ones would be detected.
TEST_F(PlanCacheTest, WritersInSeveralProcessesLoseNothing) {
  constexpr int kWriters = 3, kRounds = 40;
  std::vector<pid_t> writers;
  for (int w = 0; w < kWriters; ++w) {
    const pid_t writer = fork();
    if (writer == 0) {
      PlanCache cache(file_, {});
      for (int i = 0; i < kRounds; ++i)
        cache.put(std::to_string(w) + " " + std::to_string(i), std::string(static_cast<std::size_t>(20000 * w + i), '\n'));
      _exit(0);
    }
    writers.push_back(writer);
  }
  for (int i = 0; i < kRounds; ++i) open();  // concurrent reads see no damage
  for (const pid_t writer : writers) {
    int status = 0;
    waitpid(writer, &status, 0);
    EXPECT_EQ(status, 0);
  }
  const PlanCache all = open();
  for (int w = 0; w < kWriters; ++w) {
    for (int i = 0; i < kRounds; ++i) {
      EXPECT_EQ(all.find(std::to_string(w) + " " + std::to_string(i)),
                std::string(static_cast<std::size_t>(20000 * w + i), '\n'));
    }
  }
  EXPECT_TRUE(warnings_.empty());
}

TEST(PlanFile, IsNamedByDeviceAndVersions) {
  EXPECT_EQ(plan_file_name("NVIDIA H100 80GB HBM3", 91900, 130100), "NVIDIA_H100_80GB_HBM3-cudnn-91900-cublaslt-130100");
}

TEST(PlanFolder, IsWhereTheUserSays) {
  const auto saved = [](const char* name) {
    return std::getenv(name) == nullptr ? std::string() : std::string(std::getenv(name));
  };
  const std::string cache = saved("MILLRACE_CACHE"), xdg = saved("XDG_CACHE_HOME"), home = saved("HOME");
  setenv("MILLRACE_CACHE", "/one", 1);
  setenv("XDG_CACHE_HOME", "/two", 1);
  setenv("HOME", "/three", 1);
  EXPECT_EQ(default_plan_folder(), "/one/plans");
  unsetenv("MILLRACE_CACHE");
  EXPECT_EQ(default_plan_folder(), "/two/millrace/plans");
  setenv("XDG_CACHE_HOME", "relative", 1);  // the specification of that variable requires ignoring it
  EXPECT_EQ(default_plan_folder(), "/three/.cache/millrace/plans");
  unsetenv("HOME");
  EXPECT_EQ(default_plan_folder(), "");
  cache.empty() ? unsetenv("MILLRACE_CACHE") : setenv("MILLRACE_CACHE", cache.c_str(), 1);
  xdg.empty() ? unsetenv("XDG_CACHE_HOME") : setenv("XDG_CACHE_HOME", xdg.c_str(), 1);
  home.empty() ? unsetenv("HOME") : setenv("HOME", home.c_str(), 1);
}

}  // namespace
}  // namespace millrace::cuda

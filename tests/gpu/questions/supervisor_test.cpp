// The supervisor, with shell commands in the place of questions: what they do wrong costs one of them, and is named.
#include "supervisor.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <fstream>
#include <map>
#include <thread>

#include "process.h"

namespace millrace::gpu {
namespace {

namespace fs = std::filesystem;

Json read(const fs::path& file) {
  std::ifstream stream(file);
  return Json::parse(stream, nullptr, false);
}

class SupervisorTest : public testing::Test {
 protected:
  SupervisorTest() : folder_(fs::path(testing::TempDir()) / fmt::format("questions-{}", getpid())) {
    fs::create_directories(folder_);
  }
  ~SupervisorTest() override { fs::remove_all(folder_); }

  fs::path out() const { return folder_ / "answers.json"; }

  // Asks all; a script has the file for its answer as $0.
  void ask(const std::vector<std::pair<std::string, std::string>>& scripts, double each = 120, double together = 600) {
    std::vector<Task> tasks;
    std::map<std::string, std::string> by_name(scripts.begin(), scripts.end());
    for (const auto& [name, script] : scripts) tasks.push_back({.name = name, .text = "what " + name, .seconds = each});
    const auto command = [&](const Task& task, const fs::path& answer) {
      return std::vector<std::string>{"/bin/sh", "-c", by_name.at(task.name), answer.string()};
    };
    Supervisor supervisor(out(), {{"format", 1}}, tasks, command, together);
    for (const Task& task : tasks) supervisor.ask(task);
    all_answered_ = supervisor.all_answered();
  }
  Json result(const std::string& name) const {
    Json all = read(out());
    return all.is_object() ? all["questions"][name] : Json::object();
  }

  const fs::path folder_;
  bool all_answered_ = false;
};

// Whether a process does anything any more: it is gone, or waits for its parent to notice, after a while at most.
bool comes_to_its_end(int process) {
  for (int i = 0; i < 6000; ++i) {
    std::ifstream status(fmt::format("/proc/{}/stat", process));
    std::string pid, name, state;
    if (!(status >> pid >> name >> state) || state == "Z") return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return false;
}

// How long a question was waited for that hung: "was stopped after 1.0 s".
double limit_of(const Json& result) {
  double seconds = 0;
  EXPECT_EQ(std::sscanf(result.value("why", "").c_str(), "was stopped after %lf s", &seconds), 1) << result;
  return seconds;
}

constexpr const char* kGood = R"(echo '{"answer": {"figure": 7}}' > $0)";

TEST_F(SupervisorTest, KeepsAnAnswer) {
  ask({{"good", kGood}});
  EXPECT_EQ(result("good")["outcome"], "answered");
  EXPECT_EQ(result("good")["answer"]["figure"], 7);
  EXPECT_EQ(result("good")["text"], "what good");
  EXPECT_EQ(read(out())["format"], 1);
  EXPECT_TRUE(all_answered_);
  EXPECT_FALSE(fs::exists(out().string() + ".parts"));
}

TEST_F(SupervisorTest, ACrashCostsOneQuestionAndIsNamed) {
  ask({{"crash", R"(echo '{"doing": "engine 37", "answer": {"engines": 36}}' > $0; kill -SEGV $$)"}, {"good", kGood}});
  EXPECT_EQ(result("crash")["outcome"], "crashed");
  EXPECT_EQ(result("crash")["doing"], "engine 37");
  EXPECT_EQ(result("crash")["answer"]["engines"], 36) << "what was found before stays";
  EXPECT_EQ(result("crash")["why"], "ended by signal 11 (Segmentation fault)");
  EXPECT_EQ(result("good")["outcome"], "answered");
  EXPECT_FALSE(all_answered_);
}

TEST_F(SupervisorTest, AHangIsStoppedWithAllThatItStarted) {
  const fs::path started = folder_ / "started";
  ask({{"hang", fmt::format(R"(sleep 3600 & echo $! > {}; echo '{{"doing": "waiting", "answer": {{}}}}' > $0; sleep 3600)",
                            started.string())}},
      3);
  EXPECT_EQ(result("hang")["outcome"], "hung");
  EXPECT_EQ(result("hang")["doing"], "waiting");
  EXPECT_EQ(result("hang")["why"], "was stopped after 3.0 s");
  EXPECT_FALSE(result("hang").contains("still_there"));
  int process = 0;
  std::ifstream(started) >> process;
  ASSERT_GT(process, 0);
  EXPECT_TRUE(comes_to_its_end(process));
}

TEST_F(SupervisorTest, AHangKeepsTheNextQuestionFromNothing) {
  Task hang{.name = "hang", .text = "?", .seconds = 1}, good{.name = "good", .text = "?", .seconds = 120};
  const auto command = [](const Task& task, const fs::path& answer) {
    return std::vector<std::string>{"/bin/sh", "-c", task.name == "good" ? kGood : "sleep 3600", answer.string()};
  };
  Supervisor supervisor(out(), {{"format", 1}}, {hang, good}, command, 600);
  EXPECT_EQ(supervisor.ask(hang)["outcome"], "hung");
  EXPECT_EQ(supervisor.ask(good)["outcome"], "answered");
}

TEST_F(SupervisorTest, AProcessThatIgnoresSignalsIsStoppedToo) {
  ask({{"deaf", R"(trap '' TERM INT HUP; while :; do sleep 1; done)"}}, 1);
  EXPECT_EQ(result("deaf")["outcome"], "hung");
  EXPECT_EQ(limit_of(result("deaf")), 1);
  EXPECT_FALSE(result("deaf").contains("still_there"));
}

TEST_F(SupervisorTest, AFailureTellsItsReason) {
  ask({{"error", R"(echo '{"error": "cudaMalloc failed", "answer": {"first": 1}}' > $0; echo more; exit 1)"},
       {"silent", "echo 'NCCL WARN no network' >&2; exit 3"}});
  EXPECT_EQ(result("error")["outcome"], "failed");
  EXPECT_EQ(result("error")["why"], "cudaMalloc failed");
  EXPECT_EQ(result("error")["answer"]["first"], 1);
  EXPECT_EQ(result("error")["said"], "more\n");
  EXPECT_EQ(result("silent")["why"], "ended with status 3");
  EXPECT_EQ(result("silent")["said"], "NCCL WARN no network\n");
}

TEST_F(SupervisorTest, GarbageIsNoAnswer) {
  ask({{"garbage", R"(printf '{"answer": \377\000' > $0; printf '\377\376 bytes')"},
       {"nothing", "true"},
       {"list", "echo '[1, 2]' > $0"},
       {"unfinished", R"(echo '{"doing": "half", "answer": {}}' > $0)"},
       {"good", kGood}});
  for (const char* name : {"garbage", "nothing", "list", "unfinished"}) {
    EXPECT_EQ(result(name)["outcome"], "failed") << name;
    EXPECT_EQ(result(name)["why"], "ended without an answer") << name;
  }
  EXPECT_EQ(result("good")["outcome"], "answered") << "and the file is still JSON";
}

TEST_F(SupervisorTest, AMissingProgramIsAFailure) {
  const Task task{.name = "none", .text = "?", .seconds = 120};
  const auto command = [](const Task&, const fs::path&) { return std::vector<std::string>{"/no/such/program"}; };
  Supervisor supervisor(out(), {}, {task}, command, 600);
  EXPECT_EQ(supervisor.ask(task)["why"], "ended with status 127");
}

// Asked again where the machine was paused, and there was no time left for the second one either.
TEST_F(SupervisorTest, WhatIsLeftOfTheTimeBoundsTheLastOnes) {
  for (int attempt = 0; attempt < 5 && result("late")["outcome"] != "hung"; ++attempt) {
    ask({{"slow", "sleep 3600"}, {"late", "sleep 3600"}, {"too_late", kGood}}, 2, 3.5);
  }
  EXPECT_EQ(result("slow")["outcome"], "hung");
  EXPECT_LE(limit_of(result("late")), 1.5);
  EXPECT_EQ(result("too_late")["outcome"], "not asked");
  EXPECT_EQ(result("too_late")["why"], "there was no time left");
}

// A reader finds a whole file while questions are asked, and it says how far they are.
TEST_F(SupervisorTest, TheFileIsWholeAtAnyTime) {
  const fs::path seen = folder_ / "seen.json";
  ask({{"good", kGood}, {"look", fmt::format("cp {} {}; {}", out().string(), seen.string(), kGood)}, {"next", kGood}});
  const Json questions = read(seen)["questions"];
  EXPECT_EQ(questions["good"]["outcome"], "answered");
  EXPECT_EQ(questions["look"]["outcome"], "being asked");
  EXPECT_EQ(questions["next"]["outcome"], "not asked");
}

TEST(Process, DiesWithTheProcessThatMadeIt) {
  const fs::path file = fs::path(testing::TempDir()) / fmt::format("orphan-{}", getpid());
  const pid_t parent = fork();
  if (parent == 0) {
    Process child({.words = {"/bin/sh", "-c", "echo $$ > $0; sleep 100", file.string()}, .log = "/dev/null"});
    child.wait(100);
    _exit(0);
  }
  int child = 0;
  for (int i = 0; i < 6000 && child == 0; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    std::ifstream(file) >> child;
  }
  ASSERT_GT(child, 0);
  kill(parent, SIGKILL);
  EXPECT_TRUE(comes_to_its_end(child));
  fs::remove(file);
}

TEST_F(SupervisorTest, FindingsAreWrittenAsTheyAreFound) {
  const fs::path file = folder_ / "findings.json";
  Findings findings(file, 120);
  findings.answer["a"] = 1;
  findings.doing("b");
  EXPECT_EQ(read(file), Json::parse(R"({"doing": "b", "answer": {"a": 1}})"));
  findings.failed("broke");
  EXPECT_EQ(read(file), Json::parse(R"({"error": "b: broke", "answer": {"a": 1}})"));
  findings.done();
  EXPECT_EQ(read(file), Json::parse(R"({"answer": {"a": 1}})"));
  EXPECT_GT(findings.left(), 0);
  EXPECT_LE(findings.left(), 120);
}

}  // namespace
}  // namespace millrace::gpu

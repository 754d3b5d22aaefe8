// The program itself, where there is no device to be seen.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>

#include "process.h"
#include "question.h"

namespace millrace::gpu {
namespace {

namespace fs = std::filesystem;

struct Ran {
  int status = -1;
  std::string said;
  Json json;
};

class Program : public testing::Test {
 protected:
  Program() : folder_(fs::path(testing::TempDir()) / fmt::format("gpu-questions-{}", getpid())) {
    setenv("CUDA_VISIBLE_DEVICES", "", 1);  // none, where there are some
    fs::create_directories(folder_);
  }
  ~Program() override { fs::remove_all(folder_); }

  Ran run(std::vector<std::string> words) const {
    words.insert(words.begin(), GPU_QUESTIONS);
    Process process({.words = words, .log = folder_ / "log"});
    const auto status = process.wait(120);
    Ran ran;
    if (status && WIFEXITED(*status)) ran.status = WEXITSTATUS(*status);
    std::ifstream log(folder_ / "log"), json(out());
    ran.said.assign(std::istreambuf_iterator<char>(log), {});
    ran.json = Json::parse(json, nullptr, false);
    return ran;
  }
  std::string out() const { return (folder_ / "out.json").string(); }

  const fs::path folder_;
};

TEST_F(Program, SaysThatThereIsNoDevice) {
  const Ran ran = run({"--out", out()});
  EXPECT_EQ(ran.status, 4);
  ASSERT_TRUE(ran.json.is_object());
  const std::string why = ran.json.value("no_device", "");
  EXPECT_TRUE(why.starts_with("no NVIDIA driver") || why.starts_with("the NVIDIA driver")) << why;
  EXPECT_NE(ran.said.find("gpu_questions: " + why), std::string::npos) << ran.said;
  EXPECT_EQ(ran.json["questions"].size(), all_questions().size());
  EXPECT_EQ(ran.json["questions"]["events"]["outcome"], "not asked");
  EXPECT_EQ(ran.json["questions"]["events"]["why"], why);
}

TEST_F(Program, AsksForTheDeviceBeforeOneQuestion) {
  const Ran ran = run({"--out", out(), "--only", "events"});
  EXPECT_EQ(ran.status, 4);
  EXPECT_EQ(ran.json["questions"].size(), 2u);
}

// A question that is started where there is no device fails with the call that found it out.
TEST_F(Program, AQuestionAloneFailsWithTheCallThatFailed) {
  for (const Question& question : all_questions()) {
    if (std::string(question.name) == "device" || std::string(question.name).starts_with("nccl")) continue;
    const Ran ran = run({"--answer", out(), "--only", question.name});
    EXPECT_EQ(ran.status, 1) << question.name;
    const std::string error = ran.json.value("error", "");
    const bool said = error.find("cudaSetDevice failed") != std::string::npos || error.find("libcudnn") != std::string::npos;
    EXPECT_TRUE(said) << question.name << ": " << error;
  }
}

TEST_F(Program, ListsEnginesForADescribedDevice) {
  const Ran ran = run({"--out", out(), "--only", "genstats", "--deviceless", "sm90"});
  if (ran.json["questions"]["genstats"].value("why", "").find("libcudnn") != std::string::npos) GTEST_SKIP() << "no cuDNN";
  EXPECT_EQ(ran.status, 0) << ran.said;
  EXPECT_EQ(ran.json["deviceless"], "sm90");
  const Json& graphs = ran.json["questions"]["genstats"]["answer"]["graphs"];
  EXPECT_EQ(graphs.size(), 10u);
  for (const Json& graph : graphs) {
    EXPECT_FALSE(graph.contains("why")) << graph;
    EXPECT_EQ(graph["engines_supporting"].empty() && graph["type"] == "f16", false) << graph;
  }
}

TEST_F(Program, AWrongCommandLineIsAnswered) {
  EXPECT_EQ(run({}).status, 2);
  EXPECT_EQ(run({"--out", out(), "--only", "nothing"}).status, 2);
  EXPECT_EQ(run({"--out", out(), "--seconds", "soon"}).status, 2);
  EXPECT_EQ(run({"--out", out(), "--deviceless", "sm12"}).status, 2);
  EXPECT_EQ(run({"--list"}).status, 0);
}

}  // namespace
}  // namespace millrace::gpu

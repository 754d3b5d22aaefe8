#include "write_classes.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <deque>
#include <fstream>
#include <sstream>
#include <utility>

#include "testkit/files.h"
#include "testkit/harness.h"
#include "testkit/messages.h"
#include "testkit/plain.h"
#include "testkit/plain_stream.h"

namespace millrace {
namespace {

namespace fs = std::filesystem;
using testkit::Harness;

constexpr int kClasses = 3;

std::string content(const fs::path& file) {
  std::ifstream stream(file, std::ios::binary);
  std::ostringstream text;
  text << stream.rdbuf();
  return text.str();
}

class WriteClassesTest : public testing::Test {
 protected:
  WriteClassesTest() : network_(testkit::small_network({2, 2, 1}, 4, kClasses)) {
    run_.set_folder(folder_.path());
    context_.network = &network_;
    context_.run = &run_;
    context_.classes = {"cat", "dog", "owl"};
  }

  std::unique_ptr<Harness> made(std::initializer_list<std::pair<const char*, Value>> keys = {}) {
    auto harness = std::make_unique<Harness>(StageTypeAccess::make<WriteClasses>(), testkit::table(keys), context_);
    harness->stage().open();
    return harness;
  }

  // A share with samples "TURN-REPLICA-i.jpg", all of class 1.
  Ref<Predictions> share(std::uint64_t turn, int replica, int replicas, const std::vector<std::vector<float>>& outputs) {
    Ref<Predictions> made = make_ref<Predictions>();
    made->turn = turn;
    made->replica = replica;
    made->replicas = replicas;
    made->count = static_cast<std::uint32_t>(outputs.size());
    auto& values = values_.emplace_back();
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      made->samples.emplace_back().url = std::to_string(turn) + "-" + std::to_string(replica) + "-" + std::to_string(i) + ".jpg";
      made->samples.back().label = 1;
      values.insert(values.end(), outputs[i].begin(), outputs[i].end());
    }
    made->outputs = {{network_.result(), network_.output(), values.data()}};
    made->ready = make_ref<testkit::Done>();
    return made;
  }
  static void feed(Harness& harness, const Ref<Predictions>& share) { harness.feed(testkit::packet(share, share->step)); }

  std::string written(const std::string& name = "predictions.csv") const { return content(folder_.path() / name); }

  testkit::TestFolder folder_;
  testkit::RecordedRun run_;
  Network network_;
  StepContext context_;
  std::deque<std::vector<float>> values_;
};

const std::vector<float> kOwl = {0, 1, 3};

// The shortest text that reads back as the same softmax.
std::string score(const std::vector<float>& outputs, std::size_t of) {
  const double most = *std::max_element(outputs.begin(), outputs.end());
  double sum = 0;
  for (const float value : outputs) sum += std::exp(value - most);
  return fmt::format("{}", std::exp(outputs[of] - most) / sum);
}

// Replaces scores of six digits by all their digits.
std::string in_full(std::string text) {
  const std::pair<std::string, std::string> scores[] = {{"0.843795", score(kOwl, 2)},       {"0.114195", score(kOwl, 1)},
                                                        {"0.665241", score({1, 2, 0}, 1)},  {"0.244728", score({1, 2, 0}, 0)},
                                                        {"0.0900306", score({1, 2, 0}, 2)}, {"0.333333", score({1, 1, 1}, 0)}};
  for (const auto& [digits, all] : scores) {
    for (std::size_t at = text.find(digits); at != std::string::npos; at = text.find(digits, at + all.size())) {
      text.replace(at, digits.size(), all);
    }
  }
  return text;
}

TEST_F(WriteClassesTest, WritesARowForEachImageInOrderOfTheSource) {
  const auto harness = made({{"top", Value(std::int64_t{1})}});
  const Ref<Predictions> last = share(1, 1, 2, {kOwl});
  last->last = true;
  for (const Ref<Predictions>& one : {last, share(0, 1, 2, {kOwl, kOwl}), share(1, 0, 2, {}), share(0, 0, 2, {kOwl})}) {
    feed(*harness, one);
  }
  harness->output().wait_until_free();
  EXPECT_EQ(written(),
            in_full("path,label,class_1,score_1,error\r\n0-0-0.jpg,dog,owl,0.843795,\r\n0-1-0.jpg,dog,owl,0.843795,\r\n"
                    "0-1-1.jpg,dog,owl,0.843795,\r\n1-1-0.jpg,dog,owl,0.843795,\r\n"));
}

TEST_F(WriteClassesTest, ScoresAreTheSoftmaxAndClassesSortedByThem) {
  const auto harness = made();
  const Ref<Predictions> one = share(0, 0, 1, {{1, 2, 0}, {5, 5, 5}, {1000, -1000, 0}});
  one->last = true;
  feed(*harness, one);
  harness->output().wait_until_free();
  EXPECT_EQ(written(), in_full("path,label,class_1,score_1,class_2,score_2,class_3,score_3,error\r\n"
                               "0-0-0.jpg,dog,dog,0.665241,cat,0.244728,owl,0.0900306,\r\n"
                               "0-0-1.jpg,dog,cat,0.333333,dog,0.333333,owl,0.333333,\r\n"
                               "0-0-2.jpg,dog,cat,1,owl,0,dog,0,\r\n"));
}

TEST_F(WriteClassesTest, HasAColumnForEachClassWhereThatIsAskedFor) {
  const auto harness = made({{"columns", Value("classes")}, {"top", Value(std::int64_t{1})}});
  const Ref<Predictions> one = share(0, 0, 1, {{1, 2, 0}, {5, 5, 5}});
  one->last = true;
  feed(*harness, one);
  harness->output().wait_until_free();
  EXPECT_EQ(written(), in_full("path,label,predicted,cat,dog,owl,error\r\n0-0-0.jpg,dog,dog,0.244728,0.665241,0.0900306,\r\n"
                               "0-0-1.jpg,dog,cat,0.333333,0.333333,0.333333,\r\n"));
}

TEST_F(WriteClassesTest, NoClassHasTheNameOfAnotherColumn) {
  context_.classes = {"label", "path", "predicted"};
  const auto harness = made({{"columns", Value("classes")}});
  const Ref<Predictions> one = share(0, 0, 1, {kOwl});
  one->last = true;
  feed(*harness, one);
  harness->output().wait_until_free();
  EXPECT_TRUE(written().starts_with("path,label,predicted,label_2,path_2,predicted_2,error\r\n0-0-0.jpg,path,predicted,"))
      << written();
}

TEST_F(WriteClassesTest, ScoresAreReadAsTheSameNumbers) {
  const std::vector<float> outputs = {0.1F, 0.7F, -0.3F};
  for (const bool probabilities : {false, true}) {
    if (probabilities) network_.layers.back().op = "softmax";
    const auto harness = made({{"top", Value(std::int64_t{1})}});
    const Ref<Predictions> one = share(0, 0, 1, {outputs});
    one->last = true;
    feed(*harness, one);
    harness->output().wait_until_free();
    const std::string row = written(), text = row.substr(row.rfind(',', row.size() - 4) + 1);
    if (probabilities)
      EXPECT_EQ(text, "0.7,\r\n") << "float32";
    else
      EXPECT_EQ(std::stod(text), std::stod(score(outputs, 1)));
  }
}

TEST_F(WriteClassesTest, TakesProbabilitiesAsTheyAre) {
  network_.layers.back().op = "softmax";
  const auto harness = made({{"top", Value(std::int64_t{2})}});
  const Ref<Predictions> one = share(0, 0, 1, {{0.25F, 0.5F, 0.25F}});
  one->last = true;
  feed(*harness, one);
  harness->output().wait_until_free();
  EXPECT_NE(written().find("0-0-0.jpg,dog,dog,0.5,cat,0.25,\r\n"), std::string::npos) << written();
}

TEST_F(WriteClassesTest, QuotesWhatCommasAndQuotesWouldBreak) {
  context_.classes = {"cat", "dog, hot", "the \"owl\""};
  const auto harness = made({{"top", Value(std::int64_t{1})}});
  const Ref<Predictions> one = share(0, 0, 1, {kOwl});
  one->samples[0].url = "a,b\nc.tar";
  one->samples[0].member = "1.jpg";
  one->last = true;
  feed(*harness, one);
  harness->output().wait_until_free();
  EXPECT_EQ(
      written(),
      in_full("path,label,class_1,score_1,error\r\n\"a,b\\x0ac.tar: 1.jpg\",\"dog, hot\",\"the \"\"owl\"\"\",0.843795,\r\n"));
}

// Tables are shared with others.
TEST_F(WriteClassesTest, NoTableHoldsAPasswordOrAFormula) {
  context_.classes = {"cat", "dog", "=owl()"};
  for (const char* file : {"predictions.csv", "predictions.jsonl"}) {
    const auto harness = made({{"top", Value(std::int64_t{1})}, {"file", Value(file)}});
    const Ref<Predictions> one = share(0, 0, 1, {kOwl});
    one->samples[0].url = "https://me:pass@host/1.jpg?token=abc";
    one->last = true;
    feed(*harness, one);
    harness->output().wait_until_free();
    EXPECT_NE(written(file).find("https://me:***@host/1.jpg?token=***"), std::string::npos) << written(file);
  }
  EXPECT_NE(written().find(",\\x3dowl(),"), std::string::npos) << written();
}

TEST_F(WriteClassesTest, WritesAnObjectALine) {
  const auto harness = made({{"top", Value(std::int64_t{2})}, {"file", Value(std::string("p.jsonl"))}});
  const Ref<Predictions> one = share(0, 0, 1, {kOwl, {1, 1, 1}});
  one->samples[0].url = "a \"b\".jpg";
  one->samples[1].url = "\xff.jpg";
  one->samples[1].label = -1;
  one->last = true;
  feed(*harness, one);
  harness->output().wait_until_free();
  EXPECT_EQ(
      written("p.jsonl"),
      in_full("{\"path\":\"a \\\"b\\\".jpg\",\"label\":\"dog\",\"classes\":[\"owl\",\"dog\"],\"scores\":[0.843795,0.114195]}\n"
              "{\"path\":\"\\\\xff.jpg\",\"label\":null,\"classes\":[\"cat\",\"dog\"],\"scores\":[0.333333,0.333333]}\n"));
}

TEST_F(WriteClassesTest, NoTwoFilesHaveOnePath) {
  const std::vector<std::string> names = {"lit\\xff.jpg", "lit\xff.jpg", "lit\\x0a.jpg", "lit\n.jpg", "\xff\n\\xff"};
  for (const char* file : {"predictions.csv", "predictions.jsonl"}) {
    const auto harness = made({{"top", Value(std::int64_t{1})}, {"file", Value(file)}});
    const Ref<Predictions> one = share(0, 0, 1, std::vector<std::vector<float>>(names.size(), kOwl));
    for (std::size_t i = 0; i < names.size(); ++i) one->samples[i].url = names[i];
    one->last = true;
    feed(*harness, one);
    harness->output().wait_until_free();
  }
  EXPECT_EQ(written(),
            in_full("path,label,class_1,score_1,error\r\nlit\\x5cxff.jpg,dog,owl,0.843795,\r\nlit\\xff.jpg,dog,owl,0.843795,\r\n"
                    "lit\\x5cx0a.jpg,dog,owl,0.843795,\r\nlit\\x0a.jpg,dog,owl,0.843795,\r\n"
                    "\\xff\\x0a\\x5cxff,dog,owl,0.843795,\r\n"));
  const std::string json = written("predictions.jsonl");
  for (const char* path : {R"("lit\\x5cxff.jpg")", R"("lit\\xff.jpg")", R"("lit\\x5cx0a.jpg")", R"("lit\u000a.jpg")"}) {
    EXPECT_NE(json.find(path), std::string::npos) << json;
  }
}

TEST_F(WriteClassesTest, NamesItsFileByItsFormat) {
  for (const char* file : {"", "sub/"}) {
    const auto harness = made({{"format", Value("jsonl")}, {"file", Value(file)}});
    const Ref<Predictions> one = share(0, 0, 1, {kOwl});
    one->last = true;
    feed(*harness, one);
    harness->output().wait_until_free();
    EXPECT_TRUE(written(std::string(file) + "predictions.jsonl").starts_with("{\"path\":")) << file;
  }
  EXPECT_FALSE(fs::exists(folder_.path() / "predictions.csv"));
}

TEST_F(WriteClassesTest, LeavesOutWhatWasSkippedAndWritesNumbersWithoutNames) {
  context_.classes.clear();
  const auto harness = made({{"top", Value(std::int64_t{1})}});
  const Ref<Predictions> one = share(0, 0, 1, {kOwl, kOwl, kOwl});
  one->samples[1].counts = false;
  one->samples[2].label = -1;
  one->last = true;
  feed(*harness, one);
  harness->output().wait_until_free();
  EXPECT_EQ(written(), in_full("path,label,class_1,score_1,error\r\n0-0-0.jpg,1,2,0.843795,\r\n0-0-2.jpg,,2,0.843795,\r\n"));
}

TEST_F(WriteClassesTest, ASampleThatCouldNotBeUsedHasARowWithTheReasonInItsPlace) {
  const std::pair<const char*, const char*> ways[] = {{"top", ",,,,"}, {"classes", ",,,,"}};
  for (const auto& [columns, none] : ways) {
    const auto harness = made({{"columns", Value(columns)}, {"top", Value(std::int64_t{2})}});
    const Ref<Predictions> one = share(0, 0, 1, {kOwl, kOwl, kOwl});
    one->samples[1].counts = false;
    one->samples[1].fault = "decode_image: no image, but text";
    one->last = true;
    feed(*harness, one);
    harness->output().wait_until_free();
    const std::string row = fmt::format(",\r\n0-0-1.jpg,dog{},\"decode_image: no image, but text\"\r\n0-0-2.jpg,dog,", none);
    EXPECT_NE(written().find(row), std::string::npos) << written();
  }
  const auto harness = made({{"file", Value("p.jsonl")}});
  const Ref<Predictions> one = share(0, 0, 1, {kOwl});
  one->samples[0].counts = false;
  one->samples[0].fault = "decode_image: no image";
  one->last = true;
  feed(*harness, one);
  harness->output().wait_until_free();
  EXPECT_EQ(written("p.jsonl"),
            "{\"path\":\"0-0-0.jpg\",\"label\":\"dog\",\"classes\":[],\"scores\":[],\"error\":\"decode_image: no image\"}\n");
}

TEST_F(WriteClassesTest, BeginsNoFileForSamplesOfWhichNoneCounts) {
  const auto harness = made();
  const Ref<Predictions> one = share(0, 0, 1, {kOwl});
  one->samples[0].counts = false;
  feed(*harness, one);
  harness->output().wait_until_free();
  EXPECT_TRUE(std::filesystem::is_empty(folder_.path())) << "as while the graph is tried";
}

TEST_F(WriteClassesTest, SaysThatNamesAndOutputsDoNotMatch) {
  context_.classes = {"cat", "dog"};
  const auto harness = made();
  ASSERT_EQ(run_.warnings().size(), 1U);
  EXPECT_MESSAGE(run_.warnings()[0]);
}

TEST_F(WriteClassesTest, EachPassReplacesTheFileWhenItIsWhole) {
  const auto harness = made({{"top", Value(std::int64_t{1})}});
  for (std::uint64_t turn = 0; turn < 4; ++turn) {
    const Ref<Predictions> one = share(turn, 0, 1, {kOwl});
    one->last = turn % 2 == 1;
    feed(*harness, one);
    harness->output().wait_until_free();
    EXPECT_EQ(fs::exists(folder_.path() / "predictions.csv"), turn > 0);
    EXPECT_EQ(turn == 1 || turn == 2, written().find("0-0-0.jpg") != std::string::npos) << "of the pass that is whole";
  }
  EXPECT_EQ(written(),
            in_full("path,label,class_1,score_1,error\r\n2-0-0.jpg,dog,owl,0.843795,\r\n3-0-0.jpg,dog,owl,0.843795,\r\n"));
}

TEST_F(WriteClassesTest, AStoppedRunKeepsWhatThereIsAndSaysWhere) {
  const auto harness = made({{"top", Value(std::int64_t{1})}});
  feed(*harness, share(0, 0, 1, {kOwl}));
  harness->output().wait_until_free();
  harness->stage().stop();
  EXPECT_FALSE(fs::exists(folder_.path() / "predictions.csv"));
  ASSERT_EQ(run_.warnings().size(), 1U);
  const std::string part = "predictions.csv.new-" + std::to_string(getpid());
  EXPECT_NE(run_.warnings()[0].find(part), std::string::npos) << run_.warnings()[0];
  EXPECT_EQ(written(part), in_full("path,label,class_1,score_1,error\r\n0-0-0.jpg,dog,owl,0.843795,\r\n"));
}

std::string refusal(const std::function<void()>& work, ErrorKind kind) {
  return testkit::error_of(kind, [&] { work(); }).message();
}

TEST_F(WriteClassesTest, RefusesMapsAndUnknownFormats) {
  EXPECT_MESSAGE(refusal([&] { made({{"file", Value(std::string("p.txt"))}}); }, ErrorKind::usage));
  network_.layers.back().output = {3, 4, 4};
  EXPECT_NE(refusal([&] { made(); }, ErrorKind::usage).find("the network's output is a map"), std::string::npos);
}

// A limit on file sizes simulates a full disk.
TEST_F(WriteClassesTest, AFullDiskEndsTheRunWithTheFilesName) {
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit small{100'000, before.rlim_max};
  setrlimit(RLIMIT_FSIZE, &small);
  const auto harness = made();
  for (std::uint64_t turn = 0; turn < 8; ++turn) {
    feed(*harness, share(turn, 0, 1, std::vector<std::vector<float>>(1000, kOwl)));
  }
  harness->output().wait_until_free();
  setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  const std::vector<Error> errors = harness->output().errors();
  ASSERT_EQ(errors.size(), 1U) << "later shares are let go of";
  EXPECT_EQ(errors[0].kind(), ErrorKind::storage);
  EXPECT_NE(errors[0].message().find("cannot write '" + (folder_.path() / "predictions.csv").string() + "'"), std::string::npos)
      << errors[0].message();
  harness->stage().stop();
  EXPECT_TRUE(fs::is_empty(folder_.path())) << "what is of no use is removed";
}

}  // namespace
}  // namespace millrace

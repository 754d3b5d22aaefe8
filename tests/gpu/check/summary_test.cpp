#include "summary.h"

#include <gtest/gtest.h>

namespace millrace::gpu {
namespace {

Json at(double time, Json event) {
  event["time"] = time;
  return event;
}

Json test(const std::string& name, const std::string& result, const Json& records = Json::object(),
          const std::string& text = "") {
  return {{"event", "test"}, {"part", "agreement"}, {"program", "gpu_backend_test"},
          {"test", name},    {"result", result},    {"seconds", 1.5},
          {"text", text},    {"records", records}};
}

TEST(Summary, CountsTestsAndNamesThoseThatDidNotPass) {
  const Json results =
      summarise({test("A.Passes", "passed"), test("A.Fails", "failed", {}, "a.cpp:1: Failure\n"), test("A.Hangs", "hung"),
                 test("A.Crashes", "crashed"), test("A.Needs", "skipped", {}, "a.cpp:2: Skipped\nno device: none\n")});
  const Json& tests = results["parts"]["agreement"]["tests"];
  for (const char* result : {"passed", "failed", "hung", "crashed", "skipped"}) EXPECT_EQ(tests.value(result, 0), 1) << result;
  EXPECT_EQ(tests["skipped_because"], "no device: none");
  ASSERT_EQ(tests["failures"].size(), 3U);
  std::string names;
  for (const Json& failure : tests["failures"]) names += failure["test"].get<std::string>() + "; ";
  EXPECT_EQ(names, "gpu_backend_test: A.Crashes; gpu_backend_test: A.Fails; gpu_backend_test: A.Hangs; ");
}

TEST(Summary, CountsComparisonsWithinTheBoundAndBeyondIt) {
  const Json results = summarise({
      test("GpuOperators.AgreeInBf16/Conv", "passed", {{"bf16 logits", "1.00e-02 (bound 2e-02, rounding 4.00e-03)"}}),
      test("GpuOperators.AgreeInBf16/Relu", "passed",
           {{"bf16 logits", "1.00e-03 (bound 2e-02, rounding 4.00e-03)"},
            {"bf16 values", "5.00e-02 (bound 2e-02, rounding 9.00e-02)"}}),
      test("GpuOperators.AgreeInFloat32/Relu", "failed", {{"fp32 logits", "nan (bound 1e-04, rounding 1.00e-06)"}}),
      test("GpuComparison.SeesAThousandthThatIsWrong", "passed", {{"fp32 logits", "1.00e-03 (bound 1e-04, rounding 1.00e-06)"}}),
  });
  const Json& agreement = results["parts"]["agreement"]["tests"]["agreement"];
  EXPECT_EQ(agreement["bf16"]["within_bound"], 2);
  EXPECT_EQ(agreement["bf16"]["beyond_bound"], 1);
  EXPECT_DOUBLE_EQ(agreement["bf16"]["worst_over_bound"], 2.5);
  EXPECT_EQ(agreement["bf16"]["worst"], "GpuOperators.AgreeInBf16/Relu: bf16 values");
  EXPECT_EQ(agreement["fp32"]["within_bound"], 0) << "what plants a fault does not count";
  EXPECT_EQ(agreement["fp32"]["beyond_bound"], 1);
}

TEST(Summary, HasPartsInTheirOrderAndWhatIsKnownOfAnUnfinishedOne) {
  const Json results =
      summarise({{{"event", "start"}, {"minutes", 24}},
                 {{"event", "begin"}, {"part", "questions"}, {"seconds", 60}},
                 {{"event", "end"}, {"part", "questions"}, {"seconds", 3.0}, {"result", {{"outcome", "measured"}}}},
                 {{"event", "begin"}, {"part", "throughput"}, {"seconds", 300}},
                 {{"event", "measured"}, {"part", "throughput"}, {"value", {{"images_per_second", 12}}}}});
  std::vector<std::string> order;
  for (const auto& [name, part] : results["parts"].items()) order.push_back(name);
  EXPECT_EQ(order, (std::vector<std::string>{"questions", "throughput"}));
  EXPECT_EQ(results["parts"]["questions"]["outcome"], "measured");
  EXPECT_EQ(results["parts"]["throughput"]["outcome"], "unfinished");
  EXPECT_EQ(results["parts"]["throughput"]["measured"][0]["images_per_second"], 12);
  EXPECT_EQ(results["run"]["finished"], false);
}

TEST(Summary, ForgetsWhatAPartMeasuredBeforeItsRunnerDied) {
  const Json results = summarise({{{"event", "begin"}, {"part", "throughput"}},
                                  {{"event", "measured"}, {"part", "throughput"}, {"value", 1}},
                                  {{"event", "begin"}, {"part", "throughput"}},
                                  {{"event", "measured"}, {"part", "throughput"}, {"value", 2}}});
  EXPECT_EQ(results["parts"]["throughput"]["measured"].dump(), "[2]");
}

TEST(Standing, CountsTheTimeInWhichARunnerWasAtWork) {
  const std::vector<Json> died = {at(100, {{"event", "start"}}), at(110, {{"event", "begin"}, {"part", "agreement"}}),
                                  at(130, test("A.B", "passed")), at(500, {{"event", "start"}}),
                                  at(505, {{"event", "begin"}, {"part", "agreement"}})};
  const Standing standing = standing_of(died);
  EXPECT_TRUE(standing.started);
  EXPECT_LT(standing.status, 0);
  EXPECT_DOUBLE_EQ(standing.used, 35);
  EXPECT_TRUE(standing.ended.empty());
  EXPECT_EQ(standing.doing, "part 'agreement'");
}

TEST(Standing, BeginsNewAfterARunThatFinished) {
  const Standing standing = standing_of({at(100, {{"event", "start"}}), at(150, {{"event", "end"}, {"part", "rest"}}),
                                         at(151, {{"event", "finish"}, {"status", 1}}), at(200, {{"event", "start"}}),
                                         at(203, {{"event", "stopped"}})});
  EXPECT_DOUBLE_EQ(standing.used, 3);
  EXPECT_LT(standing.status, 0);
  EXPECT_TRUE(standing.stopped);
  EXPECT_EQ(standing.ended, std::vector<std::string>{"rest"});
}

TEST(Status, IsThatOfTheWorstPart) {
  const auto with = [](const std::vector<std::string>& outcomes) {
    Json results = {{"parts", Json::object()}};
    for (const std::string& outcome : outcomes)
      results["parts"][std::to_string(results["parts"].size())] = {{"outcome", outcome}};
    return status_of(results);
  };
  EXPECT_EQ(with({"passed", "measured", "skipped", "no time"}), 0);
  EXPECT_EQ(with({"passed", "failed"}), 1);
  EXPECT_EQ(with({"skipped", "skipped"}), 4);
}

TEST(Table, HasPartsTheirAgreementAndTheirFailures) {
  const std::string table = table_of(summarise(
      {{{"event", "row"}, {"part", "preparation"}, {"what", "photographs"}},
       {{"event", "begin"}, {"part", "agreement"}},
       test("GpuOperators.AgreeInBf16/Conv", "passed", {{"bf16 logits", "5.00e-02 (bound 2e-02, rounding 4.00e-02)"}}),
       test("A.Hangs", "hung"),
       {{"event", "end"}, {"part", "agreement"}, {"seconds", 3}, {"result", {{"outcome", "failed"}, {"why", "a test hangs"}}}}}));
  for (const char* words : {"agreement", "failed", "a test hangs", "bf16", "1 beyond it; worst 2.50 times", "A.Hangs"}) {
    EXPECT_NE(table.find(words), std::string::npos) << words << " is not in:\n" << table;
  }
  EXPECT_EQ(table.find("preparation"), std::string::npos);
}

TEST(Lines, SayWhatAPersonWantsToKnow) {
  EXPECT_EQ(line_for(test("A.B", "passed")), "");
  const std::string line = line_for(test("A.B", "crashed", {}, "ended by signal 11\nmore\n"));
  for (const char* word : {"A.B", "crashed", "ended by signal 11"}) EXPECT_NE(line.find(word), std::string::npos) << line;
  EXPECT_EQ(line.find("more"), std::string::npos);
}

}  // namespace
}  // namespace millrace::gpu

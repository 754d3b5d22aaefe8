// Parts "agreement", "rest" and "questions": programs that ask the device and answer by themselves.
#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <optional>

#include "millrace/error.h"
#include "test_run.h"

namespace millrace::gpu {
namespace {

namespace fs = std::filesystem;

// A test waits for the CPU backend most of the time, and that has the better of several cores.
constexpr int kCoresOfAProcess = 4;

std::vector<fs::path> test_programs(const Setting& setting) {
  std::vector<fs::path> programs;
  for (const fs::path& folder : {setting.tests, setting.more_tests}) {
    std::error_code ignored;
    for (const auto& entry : fs::directory_iterator(folder, ignored)) {
      const std::string name = entry.path().filename().string();
      // gpu_contract_test and gpu_check_test need no device and belong to the other tests.
      if (name.starts_with("gpu_") && name.ends_with("_test") && name != "gpu_contract_test" && name != "gpu_check_test") {
        programs.push_back(entry.path());
      }
    }
  }
  std::sort(programs.begin(), programs.end());
  return programs;
}

// What stands in the journal, from a runner that died.
std::set<TestName> done_before(const Setting& setting) {
  std::set<TestName> done;
  for (const Json& event : read_events(setting.journal())) {
    if (event.value("event", "") == "test") done.insert({event.value("program", ""), event.value("test", "")});
  }
  return done;
}

// Groups of one program's tests, those that compare with the CPU or the others. A program that does not even list its tests is a
// row of the table, and counted.
template <class Wanted>
void add_groups(const PartContext& context, const fs::path& program, const std::string& filter, const Wanted& wanted,
                std::vector<TestGroup>& groups, int& failed) {
  try {
    std::vector<std::string> tests = tests_of(context.setting, program, filter);
    std::erase_if(tests, [&](const std::string& test) { return !wanted(test); });
    for (TestGroup& group : make_groups(program, tests)) groups.push_back(std::move(group));
  } catch (const Error& error) {
    context.report.row(program.filename().string(), "failed", error.what());
    ++failed;
  }
}

// The outcome is that of all tests of the part, those that ran before a runner died among them.
Json run_groups(const PartContext& context, std::vector<TestGroup> groups, int failed, const Budget& budget) {
  leave_out(done_before(context.setting), groups);
  const int processes = std::max(1, static_cast<int>(context.cores.size()) / kCoresOfAProcess);
  TestRun run(context.setting, context.report, context.cores, processes);
  const int left = run.run(groups, budget);
  int passed = 0, skipped = 0;
  for (const Json& event : read_events(context.setting.journal())) {
    if (event.value("event", "") != "test" || event.value("part", "") != context.report.part()) continue;
    const std::string result = event.value("result", "");
    ++(result == "passed" ? passed : result == "skipped" ? skipped : failed);
  }
  context.report.row("tests", fmt::format("{} passed", passed),
                     fmt::format("{} failed, {} skipped, {} not run", failed, skipped, left));
  Json result = {{"outcome", failed > 0 ? "failed" : left > 0 ? "unfinished" : passed > 0 ? "passed" : "skipped"}};
  if (left > 0) result["why"] = fmt::format("{} tests did not run in time", left);
  return result;
}

}  // namespace

Json agreement_part(const PartContext& context) {
  const Budget budget(context.seconds);
  std::vector<TestGroup> groups;
  int failed = 0;
  for (const fs::path& program : test_programs(context.setting))
    add_groups(context, program, "*", compares_with_cpu, groups, failed);
  return run_groups(context, std::move(groups), failed, budget);
}

Json rest_part(const PartContext& context) {
  const Budget budget(context.seconds);
  const auto others = [](const std::string& test) { return !compares_with_cpu(test); };
  std::vector<TestGroup> groups;
  int failed = 0;
  for (const fs::path& program : test_programs(context.setting)) add_groups(context, program, "*", others, groups, failed);
  const fs::path shared = context.setting.tests / "conformance_test";  // asks every backend the same
  if (fs::exists(shared)) {
    add_groups(context, shared, "*EveryBackend*" + context.setting.backend + "*", others, groups, failed);
  }
  return run_groups(context, std::move(groups), failed, budget);
}

Json questions_part(const PartContext& context) {
  const Setting& setting = context.setting;
  const fs::path answers = setting.state / "answers/questions.json";
  fs::create_directories(answers.parent_path());
  fs::remove(answers);
  const auto program = find_program("gpu_questions", {setting.more_tests, setting.tests});
  if (!program) return skipped(context.report, "questions", "there is no program gpu_questions");
  const Finished asked = run(
      {.words = {*program, "--out", answers.string()}, .environment = setting.environment(), .log = setting.log("gpu_questions")},
      context.seconds);
  Json result = {{"outcome", asked.status == 0 ? "measured" : asked.status == 4 ? "skipped" : "failed"}};
  if (asked.timed_out) result["why"] = "did not end in time";
  if (asked.status != 0 && !asked.timed_out)
    result["why"] = fmt::format("status {}: {}", asked.status, tail(setting.log("gpu_questions")));
  std::ifstream file(answers);
  result["answers"] = Json::parse(file, nullptr, false);  // what it wrote before it failed is worth as much
  if (result["answers"].is_discarded()) result["answers"] = nullptr;
  context.report.row("questions", result["outcome"], result.value("why", ""));
  return result;
}

}  // namespace millrace::gpu

// Parts 1 and 2: every test that needs a device, then the short ones under compute-sanitizer.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <sstream>

#include "check.h"

namespace millrace::gpu {
namespace {

namespace fs = std::filesystem;

// Comparisons with the CPU in one precision, against the bound, whatever the tests let pass besides.
struct Agreement {
  int within = 0, beyond = 0;
  double worst = 0;  // difference over bound
  std::string worst_where;
};

struct Counts {
  int passed = 0, skipped = 0, failed = 0;
  std::vector<std::string> failures;
  std::string reason;                          // of the first that was skipped
  Json measured = Json::object();              // what tests recorded, by test
  std::map<std::string, Agreement> agreement;  // by precision
};

// "bf16 logits": "1.20e-02 (bound 2e-02, rounding 4.00e-03)"
void count_comparison(const std::string& key, const Json& value, const std::string& test, Counts& counts) {
  if (test.starts_with("GpuComparison.")) return;  // plants a fault to see it found
  double difference = 0, bound = 0;
  if (!value.is_string() || std::sscanf(value.get<std::string>().c_str(), "%lf (bound %lf", &difference, &bound) != 2) return;
  Agreement& agreement = counts.agreement[key.substr(0, key.find(' '))];
  const bool good = difference <= bound;  // false of NaN
  (good ? agreement.within : agreement.beyond) += 1;
  if (difference / bound <= agreement.worst) return;
  agreement.worst = difference / bound;
  agreement.worst_where = test + ": " + key;
}

void count(const Json& test, const std::string& suite, Counts& counts) {
  const std::string name = suite + "." + test.value("name", "");
  if (test.contains("failures")) {
    ++counts.failed;
    counts.failures.push_back(name);
  } else if (test.value("result", "") == "SKIPPED") {
    ++counts.skipped;
  } else {
    ++counts.passed;
  }
  for (const auto& [key, value] : test.items()) count_comparison(key, value, name, counts);
  for (const char* key : {"planned_mib", "held_mib"}) {
    if (test.contains(key)) counts.measured[name][key] = test[key];
  }
}

Counts read_report(const fs::path& file) {
  Counts counts;
  std::ifstream stream(file);
  const Json report = Json::parse(stream, nullptr, false);
  if (!report.is_object()) return counts;
  for (const Json& suite : report.value("testsuites", Json::array())) {
    for (const Json& test : suite.value("testsuite", Json::array())) count(test, suite.value("name", ""), counts);
  }
  return counts;
}

// What a program said before it was stopped: its report is written at its end only.
Counts read_lines(const std::string& output) {
  Counts counts;
  std::istringstream stream(output);
  for (std::string line; std::getline(stream, line);) {
    if (line.starts_with("[       OK ]")) ++counts.passed;
    if (line.starts_with("[  SKIPPED ]")) ++counts.skipped;
    if (!line.starts_with("[  FAILED  ]")) continue;
    ++counts.failed;
    counts.failures.push_back(line.substr(13, line.find(' ', 13) - 13));
  }
  return counts;
}

// The first line that a skipped test printed. (Reports have it from GoogleTest 1.13 on.)
std::string reason_in(const std::string& output) {
  const std::size_t at = output.find(": Skipped\n");
  if (at == std::string::npos) return {};
  const std::size_t begin = at + 10;
  return output.substr(begin, output.find('\n', begin) - begin);
}

std::vector<fs::path> test_programs(const Setting& setting) {
  std::vector<fs::path> programs;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(setting.tests, ignored)) {
    const std::string name = entry.path().filename().string();
    // gpu_contract_test proves the contract on the CPU and belongs to the other tests.
    if (name.starts_with("gpu_") && name.ends_with("_test") && name != "gpu_contract_test") programs.push_back(entry.path());
  }
  if (fs::exists(setting.tests / "conformance_test")) programs.push_back(setting.tests / "conformance_test");
  std::sort(programs.begin(), programs.end());
  return programs;
}

// The environment that lets the tests name another backend than cuda.
std::map<std::string, std::string> environment(const Setting& setting) {
  return {{"MILLRACE_GPU_TEST_BACKEND", setting.backend}, {"MILLRACE_PIPELINES", setting.pipelines.string()}};
}

Json run_tests(const Setting& setting, const fs::path& program, double limit) {
  const std::string name = program.filename().string();
  const fs::path report = setting.out / (name + ".json");
  fs::remove(report);
  const bool shared = name == "conformance_test";  // asks every backend the same
  const Command command{.words = {program.string(), "--gtest_output=json:" + report.string(),
                                  shared ? "--gtest_filter=*EveryBackend*" + setting.backend + "*" : "--gtest_filter=*"},
                        .environment = environment(setting),
                        .log = setting.log(name)};
  const Finished finished = run(command, limit);
  std::ofstream(setting.log(name), std::ios::app) << finished.output;
  Counts counts = fs::exists(report) ? read_report(report) : read_lines(finished.output);
  counts.reason = counts.skipped > 0 ? reason_in(finished.output) : "";
  Json result = {{"passed", counts.passed}, {"skipped", counts.skipped}, {"failed", counts.failed}};
  result["seconds"] = finished.seconds;
  if (!counts.reason.empty()) result["skipped_because"] = counts.reason;
  if (!counts.measured.empty()) result["measured"] = counts.measured;
  if (finished.timed_out || (finished.status != 0 && counts.failed == 0)) {
    result["failed"] = counts.failed + 1;
    counts.failures.push_back(finished.timed_out ? "did not end in time" : fmt::format("ended with status {}", finished.status));
  }
  if (!counts.failures.empty()) result["failures"] = counts.failures;
  row(name, fmt::format("{} passed", counts.passed),
      fmt::format("{} failed, {} skipped{}  {:.0f} s", result["failed"].get<int>(), counts.skipped,
                  counts.reason.empty() ? "" : " (" + counts.reason + ")", finished.seconds));
  for (const auto& [precision, agreement] : counts.agreement) {
    result["agreement"][precision] = {{"within_bound", agreement.within},
                                      {"beyond_bound", agreement.beyond},
                                      {"worst_over_bound", agreement.worst},
                                      {"worst", agreement.worst_where}};
    row("  " + precision + ", comparisons with the CPU", fmt::format("{} within bound", agreement.within),
        fmt::format("{} beyond it; worst {:.2f} times the bound ({})", agreement.beyond, agreement.worst, agreement.worst_where));
  }
  for (const std::string& failure : counts.failures) row("", "", "failed: " + failure);
  return result;
}

const char* outcome(int passed, int failed) { return failed > 0 ? "failed" : passed > 0 ? "passed" : "skipped"; }

// The figure in a line such as "========= ERROR SUMMARY: 0 errors" or "RACECHECK SUMMARY: 2 hazards displayed".
int summary(const std::string& text) {
  const std::size_t at = text.rfind("SUMMARY:");
  return at == std::string::npos ? -1 : std::atoi(text.c_str() + at + 8);
}

constexpr const char* kShort =
    "*GpuOperators.Agree*/Conv:*GpuOperators.Agree*/ConvGroups:*GpuOperators.Agree*/BatchNormRelu:*GpuOperators.Agree*/"
    "MaxPoolOverlapping:*GpuOperators.Agree*/AveragePool:*GpuOperators.Agree*/Concat:*GpuOperators.Agree*/"
    "Lrn:*GpuOperators.Agree*/"
    "ResidualGelu:*GpuOperators.Agree*/LinearRelu:*GpuOperators.Agree*/Dropout:*GpuOperators.Agree*/ScaleAndSoftmax:"
    "GpuReplica.InfersWhat*:GpuReplica.LooksAhead*";

Json sanitize(const Setting& setting, const std::string& program, const std::string& tool, double limit) {
  const std::string name = "compute-sanitizer-" + tool;
  const Command command{
      .words = {program, "--tool", tool, "--error-exitcode", "99", "--print-limit", "20",
                (setting.tests / "gpu_backend_test").string(), "--gtest_brief=1", std::string("--gtest_filter=") + kShort},
      .environment = environment(setting),
      .log = setting.log(name)};
  const Finished finished = run(command, limit);
  std::ofstream(setting.log(name), std::ios::app) << finished.output;
  const int reports = summary(finished.output);
  Json result = {{"tool", tool}, {"seconds", finished.seconds}, {"status", finished.status}};
  if (finished.output.find("Device not supported") != std::string::npos) {
    result["outcome"] = "skipped";
    result["why"] = "this machine does not let it look at the device";
  } else if (finished.timed_out || reports < 0) {
    result["outcome"] = "failed";
    result["why"] = finished.timed_out ? "did not end in time" : "gave no summary: " + tail(setting.log(name));
  } else {
    result["reports"] = reports;
    result["outcome"] = reports == 0 && finished.status == 0 ? "passed" : "failed";
  }
  row(name, reports < 0 ? result["outcome"].get<std::string>() : fmt::format("{} reports", reports),
      fmt::format("{}  {:.0f} s", result.value("why", ""), finished.seconds));
  return result;
}

}  // namespace

Json tests_part(const Setting& setting) {
  const Budget budget(setting.limit);
  Json part = {{"what", "tests on the device"}, {"programs", Json::object()}};
  int passed = 0, failed = 0;
  for (const fs::path& program : test_programs(setting)) {
    const Json result = run_tests(setting, program, budget.left());
    passed += result["passed"].get<int>();
    failed += result["failed"].get<int>();
    part["programs"][program.filename().string()] = result;
  }
  if (part["programs"].empty()) row("tests", "none", "no gpu_*_test lies in " + setting.tests.string());
  part["outcome"] = outcome(passed, failed);
  return part;
}

Json sanitizer_part(const Setting& setting) {
  const Budget budget(setting.limit);
  Json part = {{"what", "short tests under compute-sanitizer"}, {"tools", Json::array()}};
  const char* home = std::getenv("CUDA_HOME");
  const auto program = find_program("compute-sanitizer", {home == nullptr ? "" : std::string(home) + "/bin",
                                                          "/usr/local/cuda/bin", "/usr/local/cuda/compute-sanitizer"});
  if (!program) {
    part["outcome"] = "skipped";
    part["why"] = "there is no compute-sanitizer on this machine";
    row("compute-sanitizer", "skipped", "is not on this machine");
    return part;
  }
  int passed = 0, failed = 0;
  for (const char* tool : {"memcheck", "racecheck"}) {
    const bool last = std::string(tool) == "racecheck";
    const Json result = sanitize(setting, *program, tool, last ? budget.left() : 0.6 * budget.left());
    passed += result["outcome"] == "passed" ? 1 : 0;
    failed += result["outcome"] == "failed" ? 1 : 0;
    part["tools"].push_back(result);
  }
  part["outcome"] = outcome(passed, failed);
  return part;
}

}  // namespace millrace::gpu

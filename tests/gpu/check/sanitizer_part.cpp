// Part "sanitizer": short tests of every kind of kernel of ours under compute-sanitizer. It looks at our kernels alone: the
// libraries' are not ours to mend, and take most of the time.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>

#include "check.h"

namespace millrace::gpu {
namespace {

// In the mangled name of every kernel of ours, as in _ZN8millrace8run_eachI...
constexpr const char* kOurKernels = "kns=millrace";

constexpr const char* kShort =
    "*GpuOperators.AgreeInBf16/Conv:*GpuOperators.AgreeInBf16/BatchNormRelu:*GpuOperators.AgreeInFloat32/BatchNormRelu:"
    "*GpuOperators.AgreeInBf16/MaxPoolOverlapping:*GpuOperators.AgreeInBf16/AveragePool:*GpuOperators.AgreeInBf16/Concat:"
    "*GpuOperators.AgreeInBf16/Lrn:*GpuOperators.AgreeInBf16/ResidualGelu:*GpuOperators.AgreeInBf16/LinearRelu:"
    "*GpuOperators.AgreeInBf16/Dropout:*GpuOperators.AgreeInFloat32/Scale:GpuReplica.InfersWhat*:"
    "GpuReplica.LooksAhead*";

// The figure in a line such as "========= ERROR SUMMARY: 0 errors" or "RACECHECK SUMMARY: 2 hazards displayed".
int summary(const std::string& text) {
  const std::size_t at = text.rfind("SUMMARY:");
  return at == std::string::npos ? -1 : std::atoi(text.c_str() + at + 8);
}

Json judge(const Finished& finished, const std::string& log) {
  const int reports = summary(finished.output);
  if (finished.output.find("Device not supported") != std::string::npos) {
    return {{"outcome", "skipped"}, {"why", "this machine does not let it look at the device"}};
  }
  if (finished.timed_out) return {{"outcome", "unfinished"}, {"why", "did not end in time"}};
  if (reports < 0) return {{"outcome", "failed"}, {"why", "gave no summary: " + tail(log)}};
  return {{"outcome", reports == 0 && finished.status == 0 ? "passed" : "failed"}, {"reports", reports}};
}

Json sanitize(const PartContext& context, const std::string& program, const std::string& tool, double limit) {
  const std::string name = "compute-sanitizer-" + tool, log = context.setting.log(name);
  std::vector<std::string> words = {program, "--tool",        tool, "--kernel-name", kOurKernels, "--error-exitcode",
                                    "99",    "--print-limit", "20"};
  if (tool == "memcheck") words.insert(words.end(), {"--report-api-errors", "no"});  // libraries try calls that may fail
  words.insert(words.end(), {(context.setting.tests / "gpu_backend_test").string(), "--gtest_brief=1",
                             std::string("--gtest_filter=") + kShort});
  const Finished finished = run({.words = words, .environment = context.setting.environment(), .log = log}, limit);
  std::ofstream(log, std::ios::app) << finished.output;
  Json result = judge(finished, log);
  result["tool"] = tool;
  result["seconds"] = finished.seconds;
  result["status"] = finished.status;
  const std::string figure =
      result.contains("reports") ? fmt::format("{} reports", result["reports"].get<int>()) : result["outcome"].get<std::string>();
  context.report.row(name, figure, fmt::format("{}  {:.0f} s", result.value("why", ""), finished.seconds));
  context.report.measured(result);
  return result;
}

}  // namespace

Json sanitizer_part(const PartContext& context) {
  const Budget budget(context.seconds);
  const char* home = std::getenv("CUDA_HOME");
  const auto program = find_program("compute-sanitizer", {home == nullptr ? "" : std::string(home) + "/bin",
                                                          "/usr/local/cuda/bin", "/usr/local/cuda/compute-sanitizer"});
  if (!program) return skipped(context.report, "compute-sanitizer", "is not on this machine");
  Json part = {{"outcome", "skipped"}, {"kernels", kOurKernels}, {"tools", Json::array()}};
  // memcheck comes first: accesses out of bounds weigh more than hazards. racecheck gets what is left.
  for (const auto& [tool, share] : {std::pair("memcheck", 0.6), std::pair("racecheck", 1.0)}) {
    part["tools"].push_back(sanitize(context, *program, tool, share * budget.left()));
  }
  for (const char* outcome : {"passed", "unfinished", "failed"}) {  // the worst counts
    if (std::any_of(part["tools"].begin(), part["tools"].end(), [&](const Json& tool) { return tool["outcome"] == outcome; })) {
      part["outcome"] = outcome;
    }
  }
  return part;
}

}  // namespace millrace::gpu

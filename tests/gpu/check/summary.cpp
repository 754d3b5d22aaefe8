#include "summary.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <map>

#include "millrace/error.h"

namespace millrace::gpu {
namespace {

// Comparisons with the CPU in one precision, against the bound, whatever the tests let pass besides.
struct Agreement {
  int within = 0, beyond = 0;
  double worst = 0;  // difference over bound
  std::string worst_where;
};

// The tests of one part. A test that another process ran again counts once, as it ended last.
struct Tests {
  std::map<std::string, int> results;
  Json failures = Json::array(), slowest = Json::array(), measured = Json::object();
  std::string skipped_because;
  std::map<std::string, Agreement> agreement;  // by precision
};

std::string name_of(const Json& test) { return fmt::format("{}: {}", test.value("program", ""), test.value("test", "")); }

std::string first_line_that_says_why(const std::string& text) {
  const std::size_t skipped = text.find(": Skipped\n");
  const std::string reason = skipped == std::string::npos ? text : text.substr(skipped + 10);
  return reason.substr(0, reason.find('\n'));
}

// "bf16 logits": "1.20e-02 (bound 2e-02, rounding 4.00e-03)"
void count_comparison(const std::string& key, const Json& value, const std::string& test, Tests& tests) {
  if (test.starts_with("GpuComparison.")) return;  // plants a fault to see it found
  double difference = 0, bound = 0;
  if (!value.is_string() || std::sscanf(value.get<std::string>().c_str(), "%lf (bound %lf", &difference, &bound) != 2) return;
  Agreement& agreement = tests.agreement[key.substr(0, key.find(' '))];
  const bool good = difference <= bound;  // false of NaN
  (good ? agreement.within : agreement.beyond) += 1;
  if (difference / bound <= agreement.worst) return;
  agreement.worst = difference / bound;
  agreement.worst_where = test + ": " + key;
}

void count(const Json& test, Tests& tests) {
  const std::string result = test.value("result", ""), name = test.value("test", "");
  ++tests.results[result];
  if (result == "skipped" && tests.skipped_because.empty())
    tests.skipped_because = first_line_that_says_why(test.value("text", ""));
  if (result != "passed" && result != "skipped") {
    tests.failures.push_back({{"test", name_of(test)}, {"result", result}, {"text", test.value("text", "")}});
  }
  tests.slowest.push_back({{"test", name_of(test)}, {"seconds", test.value("seconds", 0.0)}});
  const Json records = test.value("records", Json::object());
  for (const auto& [key, value] : records.items()) {
    count_comparison(key, value, name, tests);
    if (key.ends_with("_mib")) tests.measured[name][key] = value;
  }
}

Json summary_of(Tests tests) {
  Json all;
  for (const char* result : {"passed", "failed", "hung", "crashed", "skipped"}) all[result] = tests.results[result];
  if (!tests.skipped_because.empty()) all["skipped_because"] = tests.skipped_because;
  if (!tests.failures.empty()) all["failures"] = tests.failures;
  if (!tests.measured.empty()) all["measured"] = tests.measured;
  for (const auto& [precision, agreement] : tests.agreement) {
    all["agreement"][precision] = {{"within_bound", agreement.within},
                                   {"beyond_bound", agreement.beyond},
                                   {"worst_over_bound", agreement.worst},
                                   {"worst", agreement.worst_where}};
  }
  std::sort(tests.slowest.begin(), tests.slowest.end(), [](const Json& a, const Json& b) { return a["seconds"] > b["seconds"]; });
  if (tests.slowest.size() > 5) tests.slowest.erase(tests.slowest.begin() + 5, tests.slowest.end());
  all["slowest"] = tests.slowest;
  return all;
}

std::string row(const std::string& what, const std::string& figure, const std::string& remark) {
  return fmt::format("  {:<46} {:>22}  {}\n", what, figure, remark);
}

void begin_part(const Json& event, Json& parts) {
  Json& part = parts[event.value("part", "")];
  const Json rows =
      part.is_null() ? Json::array() : part.value("rows", Json::array());  // of the preparation, and of a runner that died
  part = {{"outcome", "unfinished"}, {"may_take", event.value("seconds", 0.0)}, {"rows", rows}};
}

void end_part(const Json& event, Json& parts) {
  Json& part = parts[event.value("part", "")];
  part["seconds"] = event.value("seconds", 0.0);
  part.update(event.value("result", Json::object()));
}

}  // namespace

Json summarise(const std::vector<Json>& events) {
  Json results = {{"machine", nullptr}, {"run", Json::object()}, {"parts", Json::object()}};
  std::map<std::string, std::map<std::string, Json>> tests;  // by part and name: the last word counts
  Json& parts = results["parts"];
  for (const Json& event : events) {
    const std::string kind = event.value("event", ""), part = event.value("part", "");
    if (kind == "start") results["run"] = event;
    if (kind == "machine") results["machine"] = event.value("machine", Json());
    if (kind == "begin") begin_part(event, parts);
    if (kind == "end") end_part(event, parts);
    if (kind == "measured") parts[part]["measured"].push_back(event.value("value", Json()));
    if (kind == "row")
      parts[part]["rows"].push_back({event.value("what", ""), event.value("figure", ""), event.value("remark", "")});
    if (kind == "test") tests[part][name_of(event)] = event;
  }
  for (const auto& [part, ended] : tests) {
    Tests counted;
    for (const auto& [name, test] : ended) count(test, counted);
    parts[part]["tests"] = summary_of(std::move(counted));
  }
  const Standing standing = standing_of(events);
  results["run"]["seconds"] = standing.used;
  results["run"]["finished"] = standing.status >= 0;
  return results;
}

Standing standing_of(const std::vector<Json>& events) {
  Standing standing;
  double last = 0;
  for (const Json& event : events) {
    const std::string kind = event.value("event", ""), part = event.value("part", "");
    const double time = event.value("time", 0.0);
    if (kind == "start" && standing.status >= 0) standing.used = 0;
    if (kind != "start" && standing.started) standing.used += time - last;
    last = time;
    standing.started = standing.started || kind == "start";
    if (kind == "start") standing.stopped = false;
    if (kind == "stopped") standing.stopped = true;
    if (kind == "start") standing.status = -1;
    if (kind == "finish") standing.status = event.value("status", 1);
    if (kind == "end") standing.ended.push_back(part);
    if (kind == "begin") standing.doing = fmt::format("part '{}'", part);
    if (kind == "test") standing.doing = fmt::format("part '{}', after {}", part, event.value("test", ""));
    if (kind == "end") standing.doing = fmt::format("after part '{}'", part);
  }
  return standing;
}

int status_of(const Json& results) {
  bool failed = false, anything = false;
  for (const auto& [name, part] : results["parts"].items()) {
    const std::string outcome = part.value("outcome", "skipped");
    failed = failed || outcome == "failed";
    anything = anything || outcome != "skipped";
  }
  return failed ? exit_code(ErrorKind::run) : anything ? 0 : exit_code(ErrorKind::device);
}

std::string table_of(const Json& results) {
  std::string text;
  for (const auto& [name, part] : results["parts"].items()) {
    if (!part.contains("outcome")) continue;  // the preparation
    text += row(name, part["outcome"], fmt::format("{:.0f} s  {}", part.value("seconds", 0.0), part.value("why", "")));
    const Json tests = part.value("tests", Json::object());
    const Json agreements = tests.value("agreement", Json::object());
    for (const auto& [precision, agreement] : agreements.items()) {
      text += row("  " + precision + ", comparisons with the CPU",
                  fmt::format("{} within bound", agreement["within_bound"].get<int>()),
                  fmt::format("{} beyond it; worst {:.2f} times the bound ({})", agreement["beyond_bound"].get<int>(),
                              agreement["worst_over_bound"].get<double>(), agreement["worst"].get<std::string>()));
    }
    const Json failures = tests.value("failures", Json::array());
    for (const Json& failure : failures) text += row("", failure["result"], failure["test"]);
  }
  return text;
}

std::string line_for(const Json& event) {
  const std::string kind = event.value("event", ""), part = event.value("part", "");
  if (kind == "begin") return fmt::format("{}: at most {:.0f} s\n", part, event.value("seconds", 0.0));
  if (kind == "row") return row(event.value("what", ""), event.value("figure", ""), event.value("remark", ""));
  if (kind == "stopped") return "stopped by gpu-check --stop\n";
  if (kind == "test") {
    const std::string result = event.value("result", ""), text = event.value("text", "");
    return result == "passed" || result == "skipped" ? "" : row(event.value("test", ""), result, text.substr(0, text.find('\n')));
  }
  if (kind == "end") {
    const Json result = event.value("result", Json::object());
    return row("part " + part, result.value("outcome", ""),
               fmt::format("{:.0f} s  {}", event.value("seconds", 0.0), result.value("why", "")));
  }
  if (kind != "machine") return "";
  const Json machine = event.value("machine", Json::object()), device = machine.value("device", Json::object());
  return row("device", device.value("name", "none"), device.value("why_not", machine.value("error", "")));
}

}  // namespace millrace::gpu

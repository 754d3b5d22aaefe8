#include "conformance.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <map>
#include <utility>
#include <vector>

#include "millrace/communicator.h"
#include "millrace/error.h"
#include "millrace/util/load_plugins.h"
#include "testkit/apart.h"
#include "testkit/conformance.h"
#include "testkit/synthetic.h"

namespace millrace {

namespace {

using conformance::Verdict;
using testkit::Ended;
using testkit::run_apart;

// Describes a loading error; "" if there is none. The file comes first, so that no library on the search path replaces it.
std::string load_problem(const std::string& file) {
  try {
    Registry registry;
    load_plugin(registry, file);
    const PluginInfo plugin = loaded_plugins(registry).front();
    if (plugin.version.empty() || plugin.text.empty()) return "MILLRACE_PLUGIN gives it no version or no text";
    if (conformance::registered_by(registry, plugin.name).empty() && registry.communicators().empty())
      return "it registers nothing";
    load_all_plugins(registry);
    for (const std::string& reason : load_errors(registry)) {
      if (reason.find("is registered already") != std::string::npos)
        return fmt::format("another plugin cannot be loaded together with it: {}", reason);
    }
    return {};
  } catch (...) {
    return current_error().what();
  }
}

std::string one_line(std::string text) {
  while (!text.empty() && text.back() == '\n') text.pop_back();
  for (std::size_t at = 0; (at = text.find('\n', at)) != std::string::npos;) text.replace(at, 1, "; ");
  return text;
}

class Verdicts {
 public:
  void say(const std::string& what, const std::string& check, Verdict verdict, const std::string& why) {
    constexpr const char* kWords[] = {"passed", "failed", "not applicable"};
    ++checked_;
    if (verdict == Verdict::failed) ++failed_;
    if (verdict == Verdict::not_applicable) {
      ++not_applicable_;
      const auto same = std::find_if(left_out_.begin(), left_out_.end(),
                                     [&](const LeftOut& other) { return other.what == what && other.why == why; });
      if (same == left_out_.end()) {
        left_out_.push_back({what, why, check});
      } else {
        same->checks += ", " + check;
      }
    }
    const bool is_listed_below = verdict == Verdict::not_applicable;
    fmt::print("{}: {}: {}{}\n", what, check, kWords[static_cast<int>(verdict)],
               why.empty() || is_listed_below ? std::string() : fmt::format(": {}", reason(what, check, why)));
    std::fflush(stdout);
  }
  // A defect of a plugin may break each of its checks: it is reported with the first.
  std::string reason(const std::string& what, const std::string& check, const std::string& why) {
    const auto [first, is_new] = reasons_.try_emplace({what, why}, check);
    constexpr std::size_t kShort = 60;
    return is_new || why.size() < kShort ? one_line(why) : fmt::format("as in '{}'", first->second);
  }
  // Reports how many checks passed, and which were not applicable, so that those are not mistaken for passed ones.
  bool end() const {
    fmt::print("{} of {} checks passed, {} failed, {} not applicable{}\n", checked_ - failed_ - not_applicable_, checked_,
               failed_, not_applicable_, left_out_.empty() ? "" : ":");
    for (const LeftOut& each : left_out_) fmt::print("  {}: {}: {}\n", each.what, each.checks, one_line(each.why));
    return failed_ == 0;
  }

 private:
  struct LeftOut {
    std::string what, why, checks;
  };
  int checked_ = 0, failed_ = 0, not_applicable_ = 0;
  std::vector<LeftOut> left_out_;
  std::map<std::pair<std::string, std::string>, std::string> reasons_;  // by failure: the first check with it
};

// The first character is the verdict's number.
std::string answer(const Registry& registry, const conformance::Subject& subject, const char* check) {
  const conformance::Report report = conformance::ask(registry, subject.kind, check, subject.name);
  return fmt::format("{}{}", static_cast<int>(report.verdict()), report.text());
}

void check_all(const Registry& registry, const conformance::Subject& subject, double seconds, Verdicts& verdicts) {
  const std::string what = fmt::format("{} '{}'", subject.kind, subject.name);
  const std::vector<conformance::Check> checks = conformance::checks_of(subject.kind);
  if (checks.empty()) verdicts.say(what, "conformance", Verdict::not_applicable, "this kind has no checks");
  bool stuck = false;
  for (const conformance::Check& check : checks) {
    if (stuck) {
      verdicts.say(what, check.name, Verdict::not_applicable, "skipped, since an earlier check did not end");
      continue;
    }
    const Ended ended = run_apart([&] { return answer(registry, subject, check.name); }, seconds);
    stuck = !ended.in_time;
    if (!ended.fate.empty() || ended.result.empty()) {
      verdicts.say(what, check.name, Verdict::failed, "it " + ended.fate);
    } else {
      verdicts.say(what, check.name, static_cast<Verdict>(ended.result[0] - '0'), ended.result.substr(1));
    }
  }
}

}  // namespace

bool print_conformance(const std::string& file, double seconds) {
  // dlopen() searches elsewhere for a name without a slash.
  const std::string path = file.find('/') == std::string::npos ? "./" + file : file;
  Verdicts verdicts;
  const std::string name = fmt::format("plugin '{}'", std::filesystem::path(file).filename().string());
  const Ended loaded = run_apart([&] { return load_problem(path); }, seconds, testkit::Leave::in_order);
  const std::string problem = loaded.fate.empty() ? loaded.result : "it " + loaded.fate;
  verdicts.say(name, "load", problem.empty() ? Verdict::passed : Verdict::failed, problem);
  if (!problem.empty()) return verdicts.end();
  conformance::image_folder();  // once, for all checks
  Registry registry;
  load_plugin(registry, path);
  load_all_plugins(registry);
  for (const conformance::Subject& subject : conformance::registered_by(registry, loaded_plugins(registry).front().name)) {
    check_all(registry, subject, seconds, verdicts);
  }
  return verdicts.end();
}

}  // namespace millrace

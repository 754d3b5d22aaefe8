#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <deque>
#include <fstream>

#include "check.h"
#include "millrace/error.h"

namespace millrace::gpu {

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const std::size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : 0.5 * (values[half - 1] + values[half]);
}

std::string tail(const std::string& file, std::size_t lines) {
  std::ifstream stream(file);
  std::deque<std::string> last;
  for (std::string line; std::getline(stream, line);) {
    if (line.empty()) continue;
    last.push_back(line);
    if (last.size() > lines) last.pop_front();
  }
  return fmt::format("{}", fmt::join(last, " | "));
}

std::vector<int> allowed_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<int> cores;
  if (sched_getaffinity(0, sizeof set, &set) != 0) return cores;
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(core, &set)) cores.push_back(core);
  }
  return cores;
}

Json skipped(Report& report, const std::string& what, const std::string& why) {
  report.row(what, "skipped", why);
  return {{"outcome", "skipped"}, {"why", why}};
}

Partner::Partner(const Command& command, double limit) : log_(command.log) {
  try {
    child_ = std::make_unique<Child>(command);
  } catch (const Error& error) {
    about_["error"] = error.what();
    return;
  }
  about_ = next(limit);
  if (about_.empty()) about_["error"] = child_->timed_out() ? fmt::format("not ready after {:.0f} s", limit) : tail(log_);
}

Json Partner::ask(double limit) {
  if (!ready() || limit <= 0) return Json::object();
  try {
    child_->write_line("measure");
  } catch (const Error&) {
    return Json::object();
  }
  return next(limit);
}

// Whatever else it prints is passed over.
Json Partner::next(double limit) {
  const Budget budget(limit);
  while (auto line = child_->read_line(budget.left())) {
    Json parsed = Json::parse(*line, nullptr, false);
    if (parsed.is_object()) return parsed;
  }
  return Json::object();
}

}  // namespace millrace::gpu

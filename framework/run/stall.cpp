#include "run/stall.h"

#include <fmt/format.h>

#include <algorithm>

#include "millrace/observer.h"

namespace millrace {
namespace {

constexpr std::size_t kMaxThreadsNamed = 3;  // threads; those that came later wait for them as a rule

std::string text_of(const Graph::Work& work, const std::string& graph) {
  const std::string what = work.sample.empty() ? "" : fmt::format("sample {} of ", work.sample);
  return fmt::format("[{}.{}] {} {}step {} for {}", graph, work.stage, work.reads ? "reads" : "works on", what, work.step + 1,
                     duration_text(work.seconds));
}

std::string text_of_waiting(const Graph::StallReport& stall_report) {
  const std::uint64_t step = stall_report.step + 1;
  switch (stall_report.waiting_for) {
    case Graph::WaitingFor::others: return fmt::format("step {} is complete here and waits for the other processes", step);
    case Graph::WaitingFor::run: return fmt::format("the run holds up step {}", step);
    case Graph::WaitingFor::batch: return fmt::format("step {} waits for its batch", step);
    case Graph::WaitingFor::step: break;
  }
  return fmt::format("step {} is under way{}", step,
                     stall_report.work.empty() ? ": on the devices, or in a stage that holds back its input" : "");
}

}  // namespace

double StallWatch::patience(double usual_pause, std::uint64_t movements) {
  constexpr double kAtFirst = 30, kAtLeast = 10, kTimes = 10;
  constexpr std::uint64_t kFirstMovements = 20;
  const double expected = std::max(kAtLeast, kTimes * usual_pause);
  return movements < kFirstMovements ? std::max(kAtFirst, expected) : expected;
}

std::string StallWatch::check(const Graph& graph, const std::string& name) {
  constexpr double kFades = 0.95;  // a pause that came once is forgotten
  const std::uint64_t packets = graph.packets_done();
  const double seconds = still_.seconds();
  if (packets != packets_) {
    packets_ = packets;
    if (movements_++ > 0) usual_ = std::max(seconds, kFades * usual_);
    still_.restart();
    next_ = 0;
    return {};
  }
  if (next_ == 0) next_ = patience(usual_, movements_);
  if (seconds < next_) return {};
  next_ = 2 * seconds;
  return fmt::format("no progress for {}: {}", duration_text(seconds), text_of(graph.stall_report(), name));
}

std::string text_of(const Graph::StallReport& stall_report, const std::string& name) {
  std::string text;
  const auto add = [&text](const std::string& part) { text += (text.empty() ? "" : "; ") + part; };
  const std::size_t named = std::min(stall_report.work.size(), kMaxThreadsNamed);
  for (std::size_t i = 0; i < named; ++i) add(text_of(stall_report.work[i], name));
  if (stall_report.work.size() > named) add(fmt::format("{} more threads work", stall_report.work.size() - named));
  if (stall_report.work.empty() && stall_report.reading > 0) {
    add(fmt::format("{} thread{} about to read", stall_report.reading, stall_report.reading == 1 ? " is" : "s are"));
  }
  for (const Graph::EdgeFigures& edge : stall_report.queued) {
    add(fmt::format("{} packet{} before [{}.{}]", edge.level, edge.level == 1 ? " waits" : "s wait", name, edge.to));
  }
  add(text_of_waiting(stall_report));
  return text;
}

}  // namespace millrace

#include "run/stall.h"

#include <fmt/format.h>

#include "millrace/run_events.h"

namespace millrace {

std::string StallWatch::look(const Graph& graph) {
  std::uint64_t packets = 0;
  for (const Graph::StageFigures& stage : graph.figures().stages) packets += stage.packets;
  const Clock::time_point now = Clock::now();
  if (packets != packets_) {
    packets_ = packets;
    moved_ = now;
    next_ = patience_;
    return {};
  }
  const double seconds = std::chrono::duration<double>(now - moved_).count();
  if (seconds < next_) return {};
  next_ = 2 * seconds;
  return fmt::format("nothing has moved for {}; waited for: {}", duration_text(seconds), waits_for(graph));
}

std::string waits_for(const Graph& graph) {
  const std::string text = graph.under_way();
  return text.empty() ? "work on devices, or a stage that keeps what it was given" : text;
}

}  // namespace millrace

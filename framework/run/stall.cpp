#include "run/stall.h"

#include <fmt/format.h>

#include "millrace/observer.h"

namespace millrace {

std::string StallWatch::look(const Graph& graph) {
  std::uint64_t packets = 0;
  for (const Graph::StageFigures& stage : graph.figures().stages) packets += stage.packets;
  if (packets != packets_) {
    packets_ = packets;
    still_.restart();
    next_ = patience_;
    return {};
  }
  const double seconds = still_.look();
  if (seconds < next_) return {};
  next_ = 2 * seconds;
  return fmt::format("nothing has moved for {}; waited for: {}", duration_text(seconds), waits_for(graph));
}

std::string waits_for(const Graph& graph) {
  const std::string text = graph.under_way();
  return text.empty() ? "work on devices, or a stage that keeps what it was given" : text;
}

}  // namespace millrace

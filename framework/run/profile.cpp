#include "run/profile.h"

#include <fmt/format.h>

#include <algorithm>

namespace millrace {

void Profile::add(const Graph::Figures& figures) {
  last_ = figures;
  level_sums_.resize(figures.edges.size(), 0);
  for (std::size_t e = 0; e < figures.edges.size(); ++e) level_sums_[e] += static_cast<double>(figures.edges[e].level);
  ++looks_;
}

std::vector<Profile::StageRow> Profile::rows(double seconds) const {
  std::vector<StageRow> rows;
  for (const auto& stage : last_.stages) {
    const std::string name = stage.replica >= 0 ? fmt::format("{}[{}]", stage.name, stage.replica) : stage.name;
    StageRow row{.name = name};
    row.packets = static_cast<double>(stage.packets);
    row.on_device = stage.device.samples > 0;
    const double busy_seconds = row.on_device ? stage.device.seconds : stage.busy_seconds;
    const auto samples = static_cast<double>(row.on_device ? stage.device.samples : stage.samples);
    row.busy = busy_seconds / seconds;
    row.in_pipeline = samples / seconds;
    if (busy_seconds > 0) row.alone = samples / busy_seconds;
    for (std::size_t e = 0; e < last_.edges.size(); ++e) {
      const auto& edge = last_.edges[e];
      if (edge.to != stage.name) continue;
      if (edge.packets > 0) row.waiting = std::max(row.waiting, edge.waited_seconds / static_cast<double>(edge.packets));
      row.level += level_sums_[e] / static_cast<double>(std::max<std::size_t>(looks_, 1));
    }
    rows.push_back(row);
  }
  return rows;
}

std::string Profile::bound_by(double seconds, int threads, int io_threads) const {
  const bool gated = last_.waited_for_data_seconds + last_.waited_for_step_seconds > 0;
  if (gated && last_.waited_for_data_seconds < 0.05 * seconds) return "the device";
  // Of the data stages, the one that leaves its threads least idle. The first row reads, on the I/O threads.
  std::string name = "nothing measurable";
  double most = 0;
  const auto all = rows(seconds);
  for (std::size_t s = 0; s < all.size(); ++s) {
    if (all[s].on_device) continue;
    const double share = all[s].busy / (s == 0 ? io_threads : threads);
    if (share > most) {
      most = share;
      name = all[s].name;
    }
  }
  return name;
}

std::string Profile::text(double seconds, int threads, int io_threads) const {
  std::string text = fmt::format("{:<20} {:<6} {:>12} {:>12} {:>9} {:>12} {:>9} {:>9}\n", "stage", "on", "alone /s", "here /s",
                                 "busy", "wait/packet", "queued", "packets");
  for (const StageRow& row : rows(seconds)) {
    const auto rate = [](double value) { return value > 0 ? fmt::format("{:.0f}", value) : std::string("-"); };
    text += fmt::format("{:<20} {:<6} {:>12} {:>12} {:>9.2f} {:>9.0f} us {:>9.1f} {:>9.0f}\n", row.name,
                        row.on_device ? "device" : "host", rate(row.alone), rate(row.in_pipeline), row.busy, row.waiting * 1e6,
                        row.level, row.packets);
  }
  text += fmt::format(
      "\nalone: samples/s of one thread, or of the device, that never waits\n"
      "busy: threads at work in the stage, of {} data and {} I/O threads; or the share of time that the device is at work,\n"
      "      updates included where it does not wait between steps (what allreduce and optimizer submit is not told apart)\n",
      threads, io_threads);
  if (last_.waited_for_data_seconds + last_.waited_for_step_seconds > 0) {
    text += fmt::format("the training step waited for data {:.1f} % of the time; data waited for the training step {:.1f} %\n",
                        100 * last_.waited_for_data_seconds / seconds, 100 * last_.waited_for_step_seconds / seconds);
  }
  return text + "bound by: " + bound_by(seconds, threads, io_threads) + "\n";
}

std::string layer_table(std::vector<LayerTime> times, std::size_t most) {
  const auto cost = [](const LayerTime& time) { return time.forward + time.backward; };
  double total = 0;
  for (LayerTime& time : times) {
    const double passes = static_cast<double>(std::max<std::uint64_t>(time.passes, 1));
    time.forward *= 1e3 / passes;
    time.backward *= 1e3 / passes;
    total += cost(time);
  }
  if (most > 0) {
    std::stable_sort(times.begin(), times.end(), [&](const LayerTime& a, const LayerTime& b) { return cost(a) > cost(b); });
    times.resize(std::min(most, times.size()));
  }
  std::string text = fmt::format("{:<32} {:>12} {:>12} {:>8}  computed by\n", "layer, ms a pass", "forward", "backward", "share");
  for (const LayerTime& time : times) {
    text += fmt::format("{:<32} {:>12.3f} {:>12.3f} {:>6.1f} %  {}\n", time.layer, time.forward, time.backward,
                        total > 0 ? 100 * cost(time) / total : 0, time.detail);
  }
  return text + fmt::format("{:<32} {:>12.3f}\n", "all layers", total);
}

}  // namespace millrace

#include "scaling.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "millrace/error.h"
#include "values.h"
#include "what_if.h"

namespace millrace {
namespace {

void add_measured_sums(const Measurement& measured, ScalingPoint& to) {
  const Look sum = sum_of(windows_of(measured));
  if (sum.reduce_seconds <= 0) return;
  to.reduce_seconds = sum.reduce_seconds / sum.steps;
  to.hidden = 1 - std::clamp(sum.exposed_seconds / to.replicas / sum.reduce_seconds, 0.0, 1.0);
}

ScalingPoint measured_point(const Measurement& measured, ScalingKind kind) {
  const Predictor predictor(measured);
  ScalingPoint point{.kind = kind,
                     .replicas = measured.facts.devices.replicas,
                     .batch = measured.facts.batch,
                     .images_per_second = predictor.measured(),
                     .band = predictor.measured_band()};
  add_measured_sums(measured, point);
  return point;
}

}  // namespace

std::vector<int> parse_replicas(std::string_view text) {
  std::vector<int> replicas;
  for (const std::string_view part : split_list(text)) {
    replicas.push_back(static_cast<int>(count_value("--scaling", std::string(part))));
    if (replicas.size() > 1 && replicas.back() <= replicas[replicas.size() - 2]) {
      fail(ErrorKind::usage, "--scaling = '{}': numbers of replicas must ascend", text);
    }
  }
  if (replicas.empty()) fail(ErrorKind::usage, "--scaling: say for how many replicas, such as 1,2,4");
  return replicas;
}

std::string devices_text(const std::string& backend, int replicas) {
  if (backend == "cpu") return fmt::format("cpu*{}", replicas);
  std::string text = backend + ":0";
  for (int i = 1; i < replicas; ++i) text += fmt::format(",{}", i);
  return text;
}

std::vector<ScalingPoint> measure_scaling(const ProfiledFile& what, const Registry& registry, const MeasureOptions& options,
                                          const std::vector<int>& replicas) {
  const RunFacts facts = facts_of(what, registry);
  if (facts.devices.replicas == 0) fail(ErrorKind::usage, "--scaling: graph '{}' uses no device", facts.graph);
  const auto run = [&](int count, std::uint32_t batch) {
    ProfiledFile changed = what;
    changed.devices = devices_text(facts.devices.backend, count);
    if (batch != facts.batch)
      changed.overrides.push_back(fmt::format("{}.{}.size={}", facts.graph, facts.stages.back().name, batch));
    return measure(changed, registry, options);
  };
  std::vector<ScalingPoint> points;
  const Measurement first = run(replicas.front(), facts.batch);
  const Predictor predictor(first);
  for (const ScalingKind kind : {ScalingKind::strong, ScalingKind::weak}) {
    for (const int count : replicas) {
      const bool is_first = count == replicas.front();
      const std::uint32_t batch = kind == ScalingKind::strong ? facts.batch
                                                              : facts.batch * static_cast<std::uint32_t>(count) /
                                                                    static_cast<std::uint32_t>(replicas.front());
      ScalingPoint point = measured_point(is_first ? first : run(count, batch), kind);
      const std::string question = is_first ? "" : fmt::format("replicas={},batch={}", count, batch);
      const Prediction predicted = predictor.predict(parse_question(question, first.facts));
      point.predicted = predicted.images_per_second;
      point.low = predicted.low;
      point.high = predicted.high;
      point.efficiency = point.images_per_second * replicas.front() / (predictor.measured() * count);
      points.push_back(point);
    }
  }
  return points;
}

std::string scaling_text(const std::vector<ScalingPoint>& points) {
  std::string text;
  for (const ScalingKind kind : {ScalingKind::strong, ScalingKind::weak}) {
    text += fmt::format("{}{} scaling: {}\n", text.empty() ? "" : "\n", kind == ScalingKind::strong ? "strong" : "weak",
                        kind == ScalingKind::strong ? "the batch stays" : "the batch of a replica stays");
    text += fmt::format("{:>8} {:>7} {:>18} {:>11} {:>26} {:>12} {:>7}\n", "replicas", "batch", "images/s", "efficiency",
                        "predicted", "all-reduce", "hidden");
    for (const ScalingPoint& point : points) {
      if (point.kind != kind) continue;
      const bool has_sums = point.reduce_seconds > 0;
      text += fmt::format("{:>8} {:>7} {:>18} {:>9.0f} % {:>26} {:>12} {:>7}\n", point.replicas, point.batch,
                          fmt::format("{:.0f} +- {:.0f}", point.images_per_second, point.band), 100 * point.efficiency,
                          fmt::format("{:.0f} ({:.0f} to {:.0f})", point.predicted, point.low, point.high),
                          has_sums ? fmt::format("{:.2f} ms", 1e3 * point.reduce_seconds) : "-",
                          has_sums ? fmt::format("{:.0f} %", 100 * point.hidden) : "-");
    }
  }
  return text;
}

std::string scaling_csv(const std::vector<ScalingPoint>& points) {
  std::string text = "scaling,replicas,batch,images_per_second,band,efficiency,predicted,low,high,reduce_seconds,hidden\n";
  for (const ScalingPoint& point : points) {
    text +=
        fmt::format("{},{},{},{:.6g},{:.6g},{:.4f},{:.6g},{:.6g},{:.6g},{:.6g},{:.4f}\n",
                    point.kind == ScalingKind::strong ? "strong" : "weak", point.replicas, point.batch, point.images_per_second,
                    point.band, point.efficiency, point.predicted, point.low, point.high, point.reduce_seconds, point.hidden);
  }
  return text;
}

}  // namespace millrace

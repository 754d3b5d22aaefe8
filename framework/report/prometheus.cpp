#include "millrace/util/prometheus.h"

#include <fmt/format.h>

#include <cmath>
#include <filesystem>
#include <map>
#include <utility>
#include <vector>

#include "millrace/util/text.h"

namespace millrace {
namespace {

// A label's value: UTF-8, with characters that would end it or the line escaped.
std::string escaped(std::string_view value) {
  std::string text;
  for (const char c : utf8_text(value)) {
    if (c == '\\' || c == '"') text += '\\';
    text += c == '\n' ? std::string("\\n") : std::string(1, c);
  }
  return text;
}

std::string number(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
  return fmt::format("{}", value);
}

// Writes families of metrics: HELP and TYPE once, then the samples. Samples with equal labels are added, since readers refuse a
// text with duplicates as a whole.
class Exposition {
 public:
  explicit Exposition(std::string_view run) : run_(fmt::format("run=\"{}\"", escaped(run))) {}

  using Labels = std::vector<std::pair<std::string_view, std::string_view>>;  // an empty value omits the label

  Exposition& family(std::string_view name, std::string_view type, std::string_view help) {
    close();
    name_ = fmt::format("millrace_{}", name);
    head_ = fmt::format("# HELP {} {}\n# TYPE {} {}\n", name_, help, name_, type);
    return *this;
  }
  Exposition& add(double value, const Labels& labels = {}) {
    std::string all = run_;
    for (const auto& [name, label] : labels) {
      if (!label.empty()) all += fmt::format(",{}=\"{}\"", name, escaped(label));
    }
    const auto [place, is_new] = places_.try_emplace(std::move(all), values_.size());
    if (is_new) values_.push_back({&place->first, 0});
    values_[place->second].second += value;
    return *this;
  }
  std::string text() {
    close();
    return std::move(text_);
  }

 private:
  void close() {
    if (!values_.empty()) text_ += head_;
    for (const auto& [labels, value] : values_) text_ += fmt::format("{}{{{}}} {}\n", name_, *labels, number(value));
    values_.clear();
    places_.clear();
  }

  const std::string run_;
  std::string text_, name_, head_;
  std::map<std::string, std::size_t> places_;                  // index into the values by labels
  std::vector<std::pair<const std::string*, double>> values_;  // in the order of add()
};

void add_progress(Exposition& out, const TickEvent& tick) {
  if (tick.graph.empty()) return;
  out.family("epoch", "gauge", "Epochs done, with the fraction of the one under way.").add(tick.epoch);
  out.family("epochs", "gauge", "Epochs that the run will have.").add(tick.epochs);
  out.family("step", "gauge", "Steps done.").add(static_cast<double>(tick.step));
  out.family("steps", "gauge", "Steps that the run will have.").add(static_cast<double>(tick.steps));
  out.family("images_per_second", "gauge", "Rate of training.").add(tick.images_per_second);
  if (tick.seconds_left > 0) out.family("left_seconds", "gauge", "Time that the run still takes.").add(tick.seconds_left);
}

void add_metrics(Exposition& out, const TickEvent& tick, std::span<const PassEvent> passes) {
  out.family("metric", "gauge",
             "Metrics, such as the loss: of training over the epoch so far, of other graphs over the last pass.");
  for (const Figure& figure : tick.figures) out.add(figure.value, {{"graph", tick.graph}, {"metric", figure.name}});
  for (const PassEvent& pass : passes) {
    for (const Figure& figure : pass.figures) out.add(figure.value, {{"graph", pass.graph}, {"metric", figure.name}});
  }
}

void add_stages(Exposition& out, const std::vector<StageTelemetry>& stages) {
  const auto each = [&](std::string_view name, std::string_view help, auto value) {
    out.family(name, "counter", help);
    for (const StageTelemetry& stage : stages) {
      const std::string replica = stage.replica < 0 ? "" : std::to_string(stage.replica);
      out.add(static_cast<double>(value(stage)), {{"stage", stage.name}, {"replica", replica}});
    }
  };
  each("stage_packets_total", "Packets that a stage has processed.", [](const auto& s) { return s.packets; });
  each("stage_samples_total", "Samples that a stage has processed.", [](const auto& s) { return s.samples; });
  each("stage_busy_seconds_total", "Time of threads inside a stage.", [](const auto& s) { return s.busy_seconds; });
  each("stage_device_seconds_total", "Time of the device for a stage.", [](const auto& s) { return s.device_seconds; });
}

void add_edges(Exposition& out, const std::vector<EdgeTelemetry>& edges) {
  const auto each = [&](std::string_view name, std::string_view type, std::string_view help, auto value) {
    out.family(name, type, help);
    for (const EdgeTelemetry& edge : edges) {
      out.add(static_cast<double>(value(edge)), {{"from", edge.from}, {"to", edge.to}});
    }
  };
  each("edge_packets_total", "counter", "Packets sent from stage to stage.", [](const auto& e) { return e.packets; });
  each("edge_waited_seconds_total", "counter", "Time that packets waited for the next stage.",
       [](const auto& e) { return e.waited_seconds; });
  each("edge_level", "gauge", "Packets that wait now.", [](const auto& e) { return e.level; });
}

void add_devices(Exposition& out, const std::vector<DeviceTelemetry>& devices) {
  const auto each = [&](std::string_view name, std::string_view type, std::string_view help, auto value) {
    out.family(name, type, help);
    for (const DeviceTelemetry& device : devices) {
      out.add(static_cast<double>(value(device)),
              {{"device", device.name}, {"replica", std::to_string(device.replica)}, {"rank", std::to_string(device.rank)}});
    }
  };
  each("device_compute_seconds_total", "counter", "Time in which a device computed.",
       [](const auto& d) { return d.compute_seconds; });
  each("device_copy_seconds_total", "counter", "Time in which a device copied.", [](const auto& d) { return d.copy_seconds; });
  each("device_communication_seconds_total", "counter", "Time in which a device exchanged gradients.",
       [](const auto& d) { return d.communication_seconds; });
  each("device_planned_memory_bytes", "gauge", "Memory that the plan gives a device.",
       [](const auto& d) { return d.memory_bytes; });
}

void add_telemetry(Exposition& out, const TelemetryEvent& event) {
  if (event.graph.empty()) return;
  out.family("training_seconds_total", "counter", "Time of training in this process, without validation.").add(event.seconds);
  out.family("waited_for_data_seconds_total", "counter", "Time in which a device had no batch.")
      .add(event.waited_for_data_seconds);
  out.family("waited_for_step_seconds_total", "counter", "Time in which a batch had no device.")
      .add(event.waited_for_step_seconds);
  out.family("data_threads", "gauge", "Threads of the stages before the step.").add(event.data_threads);
  out.family("io_threads", "gauge", "Threads that read files.").add(event.io_threads);
  out.family("resident_bytes", "gauge", "Memory of the process.").add(static_cast<double>(event.resident_bytes));
  add_stages(out, event.stages);
  add_edges(out, event.edges);
  add_devices(out, event.devices);
}

}  // namespace

std::string prometheus_text(const RunStart& run, bool running, const TickEvent& tick, const TelemetryEvent& telemetry,
                            std::span<const PassEvent> passes) {
  Exposition out(run.folder.empty() ? run.name : (std::filesystem::path(run.name) / run.folder.filename()).string());
  out.family("running", "gauge", "1 while the run goes on, 0 when it has ended.").add(running ? 1 : 0);
  add_progress(out, tick);
  add_metrics(out, tick, passes);
  add_telemetry(out, telemetry);
  return out.text();
}

TickEvent tick_after(const RunStart& run, const EpochEvent& epoch, TickEvent before) {
  before.graph = epoch.graph;
  before.step = epoch.step;
  before.steps = run.steps;
  if (run.steps_per_epoch > 0) before.epoch = static_cast<double>(epoch.step) / static_cast<double>(run.steps_per_epoch);
  before.epochs = epoch.epochs;
  before.figures = epoch.figures;
  before.images_per_second = epoch.images_per_second;
  return before;
}

}  // namespace millrace

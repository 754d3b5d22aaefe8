#include "story.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <set>
#include <utility>

#include "json.h"
#include "millrace/util/earlier_events.h"
#include "millrace/util/prometheus.h"
#include "millrace/util/run_settings.h"

namespace millrace::page {
namespace {

constexpr std::size_t kMaxDevices = 8;
constexpr std::size_t kMaxSettings = 300, kMaxOfSetting = 200;  // keys; bytes per value

std::string figures_json(const std::vector<Figure>& figures) {
  return list(figures, [](const Figure& figure) {
    return JsonObject().add("name", figure.name).add("value", figure.value).add("percent", figure.percent).text();
  });
}

double clock_seconds() { return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count(); }

// At most `most` bytes, without a partial character.
std::string shortened(std::string text, std::size_t most) {
  if (text.size() <= most) return text;
  while (most > 0 && (text[most] & 0xc0) == 0x80) --most;
  return text.substr(0, most) + "…";
}

// [["train.batch.size","50"],...], without the quotes of a text.
std::string settings_json(std::vector<RunSetting> settings) {
  if (settings.size() > kMaxSettings) settings.resize(kMaxSettings);
  return list(settings, [](const RunSetting& setting) {
    const bool is_text = setting.value.kind() == Value::Kind::text;
    const std::string text = shortened(is_text ? setting.value.text() : to_toml(setting.value), kMaxOfSetting);
    return fmt::format("[{},{}]", page::quoted(setting.key), page::quoted(text));
  });
}

// `began` and `now` use the same clock, which need not be the browser's.
std::string run_json(const RunStart& run, const std::string& settings, double began) {
  return JsonObject()
      .add("name", run.name)
      .add("file", run.file)
      .add("folder", run.folder.string())
      .add("graph", run.graph)
      .add("seed", run.seed)
      .add("epochs", run.epochs)
      .add("first_step", run.first_step)
      .add("steps", run.steps)
      .add("steps_per_epoch", run.steps_per_epoch)
      .add("replicas", run.replicas)
      .add("resumed", run.resumed)
      .raw("settings", settings)
      .raw("began", fmt::format("{:.3f}", began))
      .raw("now", fmt::format("{:.3f}", clock_seconds()))
      .text();
}

// Progress and metrics of training or of a validation.
template <class Event>
JsonObject progress_of(const Event& event) {
  JsonObject json;
  json.add("epoch", event.epoch).add("step", event.step).raw("figures", figures_json(event.figures));
  json.add("images_per_second", event.images_per_second);
  return json;
}

std::string tick_json(const TickEvent& tick) {
  return progress_of(tick)
      .add("epochs", tick.epochs)
      .add("steps", tick.steps)
      .add("waits_for", tick.waits_for)
      .add("seconds_left", tick.seconds_left)
      .text();
}

std::string pass_json(const PassEvent& pass) {
  return progress_of(pass)
      .add("graph", pass.graph)
      .add("samples", pass.samples)
      .add("seconds", pass.seconds)
      .add("best_step", pass.best_step)
      .text();
}

std::string bad_sample_json(const BadSampleEvent& bad) {
  return JsonObject()
      .add("count", bad.count)
      .add("place", bad.place)
      .add("stage", bad.stage)
      .add("cause", bad.cause)
      .add("action", bad.action)
      .add("epoch", bad.epoch)
      .text();
}

std::string end_json(const RunEnd& end) {
  return JsonObject()
      .add("epoch", end.epoch)
      .add("step", end.step)
      .add("bad_samples", end.bad_samples)
      .add("signal", end.signal)
      .add("stopped", end.stopped)
      .add("weights_file", end.weights_file)
      .add("error", end.error)
      .add("elapsed_seconds", end.elapsed_seconds)
      .text();
}

// Sums of each stage over its instances, so that the size does not grow with the number of replicas.
struct StageSum {
  StageTelemetry now, before;
  std::size_t instances = 0;
};
void add_to(StageTelemetry& sum, const StageTelemetry& stage) {
  sum.samples += stage.samples;
  sum.busy_seconds += stage.busy_seconds;
  sum.device_seconds += stage.device_seconds;
}
std::vector<StageSum> sums_of(const std::vector<StageTelemetry>& now, const std::vector<StageTelemetry>& before) {
  std::vector<StageSum> sums;
  std::map<std::string, std::size_t> place;
  for (std::size_t i = 0; i < now.size(); ++i) {
    const auto [found, is_new] = place.emplace(now[i].name, sums.size());
    if (is_new) {
      StageTelemetry& sum = sums.emplace_back().now;
      sum.name = now[i].name;
      sum.on_device = now[i].on_device;
    }
    StageSum& sum = sums[found->second];
    add_to(sum.now, now[i]);
    add_to(sum.before, entry_of(before, i));
    ++sum.instances;
  }
  return sums;
}

// A graph's stages with their rates, from two events `seconds` apart.
std::string stages_json(const std::vector<StageTelemetry>& all, const std::vector<StageTelemetry>& earlier, double seconds) {
  return list(sums_of(all, earlier), [&](const StageSum& sum) {
    const auto& [now, before, instances] = sum;
    return JsonObject()
        .add("name", now.name)
        .add("on_device", now.on_device)
        .add("instances", instances)
        .add("samples", now.samples)
        .add("rate", growth_rate(static_cast<double>(now.samples), static_cast<double>(before.samples), seconds))
        .add("busy", growth_rate(now.busy_seconds, before.busy_seconds, seconds))
        .add("device", growth_rate(now.device_seconds, before.device_seconds, seconds))
        .text();
  });
}

std::string edge_name(const EdgeTelemetry& edge) { return edge.from + ">" + edge.to; }

std::string edges_json(const std::vector<EdgeTelemetry>& now, const std::vector<EdgeTelemetry>& before, double seconds,
                       const std::map<std::string, std::int64_t>& most) {
  std::size_t i = 0;
  return list(now, [&](const EdgeTelemetry& edge) {
    const EdgeTelemetry old = entry_of(before, i++);
    const auto packets = static_cast<double>(edge.packets), earlier = static_cast<double>(old.packets);
    return JsonObject()
        .add("from", edge.from)
        .add("to", edge.to)
        .add("level", edge.level)
        .add("most", most.at(edge_name(edge)))
        .add("rate", growth_rate(packets, earlier, seconds))
        .add("waited", growth_rate(edge.waited_seconds, old.waited_seconds, packets - earlier))
        .text();
  });
}

struct DeviceRates {
  DeviceTelemetry device;
  double compute = 0, copy = 0, communication = 0;
};

// With many devices, only those that compute least are shown: a lagging device is among them.
std::string devices_json(const std::vector<DeviceTelemetry>& now, const std::vector<DeviceTelemetry>& before, double seconds) {
  std::vector<DeviceRates> rates;
  for (const DeviceTelemetry& device : now) {
    const DeviceTelemetry old = earlier_of(device, before);
    rates.push_back({device, growth_rate(device.compute_seconds, old.compute_seconds, seconds),
                     growth_rate(device.copy_seconds, old.copy_seconds, seconds),
                     growth_rate(device.communication_seconds, old.communication_seconds, seconds)});
  }
  if (rates.size() > kMaxDevices) {
    std::ranges::stable_sort(rates, {}, &DeviceRates::compute);
    rates.resize(kMaxDevices);
  }
  return list(rates, [](const DeviceRates& each) {
    return JsonObject()
        .add("name", each.device.name)
        .add("rank", each.device.rank)
        .add("compute", each.compute)
        .add("copy", each.copy)
        .add("communication", each.communication)
        .add("memory_bytes", each.device.memory_bytes)
        .text();
  });
}

std::size_t ranks_of(const std::vector<DeviceTelemetry>& devices) {
  std::set<int> ranks;
  for (const DeviceTelemetry& device : devices) ranks.insert(device.rank);
  return ranks.size();
}

std::string request_text(const RequestEvent& e) {
  std::string what = to_string(e.kind);
  std::ranges::replace(what, '_', ' ');
  if (e.kind == RequestKind::rate_factor) what += fmt::format(" {:g}", e.factor);
  const std::string text = e.text.empty() ? "" : ": " + e.text;
  switch (e.state) {
    case RequestEvent::State::asked: return fmt::format("{} asks for {}", e.by, what);
    case RequestEvent::State::completed: return fmt::format("{} done after step {}{}", what, e.step, text);
    case RequestEvent::State::refused: return fmt::format("{} refused{}", what, text);
  }
  return what;
}

}  // namespace

void Story::begin(const RunStart& start) {
  run_ = start;
  settings_ = settings_json(run_settings(start));
  began_ = clock_seconds() - start.elapsed_seconds;
  changed_ |= kRun;
  if (start.resumed) say("run", fmt::format("resumes from step {}", start.first_step - 1), start.elapsed_seconds);
}

void Story::recall(const std::filesystem::path& metrics, const ResumedAt& at) {
  const auto add_step = [this](StepEvent event) {
    event.graph = run_.graph;
    add(event);
  };
  send_earlier_events(metrics, at, {.step = add_step, .pass = [this](const PassEvent& event) { add(event); }});
}

void Story::plot(const std::string& graph, std::uint64_t step, const Figure& figure, bool smooth) {
  const std::string name = graph + "." + figure.name;
  auto found = curves_.find(name);
  if (found == curves_.end()) {
    if (curves_.size() == kMaxCurves) return;
    const double memory = smooth ? std::clamp(static_cast<double>(run_.steps) / 100, 5.0, 500.0) : 0;
    found =
        curves_.emplace(name, Curve{Course(memory), graph, figure.name, figure.percent, figure.higher_is_better, memory}).first;
  }
  found->second.percent |= figure.percent;  // earlier versions do not write it
  found->second.higher_is_better |= figure.higher_is_better;
  found->second.course.add(step, figure.value);
}

// The metrics of the best weights belong to their step, which the curve already has unless it is empty.
void Story::plot_pass(const PassEvent& e, const Figure& figure) {
  if (e.best_step == 0) return plot(e.graph, e.step, figure, false);
  const auto found = curves_.find(e.graph + "." + figure.name);
  if (found == curves_.end() || found->second.course.size() == 0) plot(e.graph, e.best_step, figure, false);
}

void Story::say(std::string kind, std::string text, double seconds) {
  log_.push_back({++messages_, seconds, std::move(kind), std::move(text)});
  if (log_.size() > kMaxMessages) log_.pop_front();
}

void Story::add(const StepEvent& e) {
  for (const Figure& figure : e.figures) plot(e.graph, e.step, figure, true);
  for (const auto& [name, value] : e.scalars) plot(e.graph, e.step, {name, value}, false);
  if (e.reported) plot(e.graph, e.step, {"images_per_second", e.images_per_second}, true);
}

void Story::add(const EpochEvent& e) {
  tick_ = tick_after(run_, e, std::move(tick_));
  changed_ |= kTick;
  std::string text = fmt::format("epoch {}", e.epoch);
  for (const Figure& f : e.figures) {
    if (f.is_detail) continue;
    text += f.percent ? fmt::format("  {} {:.2f} %", f.name, 100 * f.value) : fmt::format("  {} {:.4g}", f.name, f.value);
  }
  say("epoch", text + fmt::format("  {:.0f} images/s", e.images_per_second), e.elapsed_seconds);
}

void Story::add(const PassEvent& e) {
  if (e.reported) {
    for (const Figure& figure : e.figures) {
      if (!figure.is_detail) plot_pass(e, figure);
    }
  }
  passes_[e.graph] = e;
  changed_ |= kPasses;
  std::string text = fmt::format("{}: {:.0f} images", e.graph, e.samples);
  for (const Figure& f : e.figures) {
    if (f.is_detail) continue;
    text += f.percent ? fmt::format("  {} {:.2f} %", f.name, 100 * f.value) : fmt::format("  {} {:.4g}", f.name, f.value);
  }
  if (!e.only_class.empty()) text += fmt::format("  all as '{}'", e.only_class);
  if (e.best_step != 0) text += fmt::format("  of the best weights, after step {}", e.best_step);
  say("pass", text, e.elapsed_seconds);
}

void Story::add(const CheckpointEvent& e) {
  if (e.by_default && !e.best) return;  // one per epoch
  say("checkpoint", fmt::format("checkpoint after step {}{}: {}", e.step, e.best ? ", the best" : "", e.path.string()),
      e.elapsed_seconds);
}

void Story::add(const BadSampleEvent& e) {
  bad_samples_.push_back(e);
  if (bad_samples_.size() > kMaxBadSamples) bad_samples_.pop_front();
  changed_ |= kBad;
}

// May come before the run has begun.
void Story::add(const WarningEvent& e) { say("warning", e.text, began_ > 0 ? clock_seconds() - began_ : 0); }
void Story::add(const RequestEvent& e) { say(std::string("request ") + to_string(e.kind), request_text(e), e.elapsed_seconds); }

void Story::add(const TickEvent& e) {
  tick_ = e;
  changed_ |= kTick;
}

void Story::add(const TelemetryEvent& e) {
  rates_.add(e);
  for (const EdgeTelemetry& edge : e.edges) {
    std::int64_t& most = most_waited_[edge_name(edge)];
    most = std::max(most, edge.level);
  }
  changed_ |= kTelemetry;
  plot("process", e.step, {"resident_bytes", static_cast<double>(e.resident_bytes)}, false);
}

bool Story::show(std::vector<Picture> pictures) {
  if (pictures == pictures_) return false;
  pictures_ = std::move(pictures);
  changed_ |= kPictures;
  return true;
}

void Story::end(const RunEnd& end) {
  end_ = end;
  rates_.end();
  changed_ |= kEnd | kTelemetry;
  say("end",
      !end.error.empty() ? end.error
      : end.stopped      ? fmt::format("stopped after step {}", end.step)
                         : "done",
      end.elapsed_seconds);
}

std::string Story::telemetry() const {
  const TelemetryEvent &now = rates_.now(), &before = rates_.before();
  const double seconds = rates_.seconds();
  const auto spent = [&](double TelemetryEvent::*sum) { return growth_rate(now.*sum, before.*sum, seconds); };
  return JsonObject()
      .raw("stages", stages_json(now.stages, before.stages, seconds))
      .raw("edges", edges_json(now.edges, before.edges, seconds, most_waited_))
      .raw("devices", devices_json(now.devices, before.devices, seconds))
      .add("device_count", now.devices.size())
      .add("ranks", ranks_of(now.devices))
      .add("waits_for_data", spent(&TelemetryEvent::waited_for_data_seconds))
      .add("waits_for_step", spent(&TelemetryEvent::waited_for_step_seconds))
      .add("data_threads", now.data_threads)
      .add("io_threads", now.io_threads)
      .add("resident_bytes", now.resident_bytes)
      .add("bottleneck", now.bottleneck)
      .add("elapsed_seconds", now.elapsed_seconds)
      .text();
}

std::string Story::curve(const std::string& name, const Curve& curve, std::size_t from) const {
  return JsonObject()
      .add("name", name)
      .add("graph", curve.graph)
      .add("figure", curve.figure)
      .add("percent", curve.percent)
      .add("higher_is_better", curve.higher_is_better)
      .add("memory", curve.memory)
      .add("stride", curve.course.stride())
      .add("from", from)
      .raw("points", curve.course.json(from))
      .text();
}

std::string Story::message(const Message& message) const {
  return JsonObject()
      .add("number", message.number)
      .add("seconds", message.seconds)
      .add("kind", message.kind)
      .add("text", message.text)
      .text();
}

std::string Story::parts(unsigned which) const {
  JsonObject json;
  if (which & kRun) json.raw("run", run_json(run_, settings_, began_));
  if (which & kTick && !tick_.graph.empty()) json.raw("tick", tick_json(tick_));
  if (which & kTelemetry && !rates_.now().graph.empty()) json.raw("telemetry", telemetry());
  if (which & kPasses) json.raw("passes", list(passes_, [](const auto& pass) { return pass_json(pass.second); }));
  if (which & kBad) json.raw("bad_samples", list(bad_samples_, bad_sample_json));
  if (which & kPictures) {
    json.raw("pictures", list(pictures_, [](const Picture& picture) {
               return JsonObject().add("name", picture.name).add("version", picture.version).text();
             }));
  }
  if (which & kEnd && end_) json.raw("end", end_json(*end_));
  const std::string text = json.text();
  return text.substr(1, text.size() - 2);
}

std::string Story::snapshot() const {
  std::string text = "{" + parts(~0U);
  text += ",\"curves\":" + list(curves_, [&](const auto& each) { return curve(each.first, each.second, 0); });
  text += ",\"log\":" + list(log_, [&](const Message& each) { return message(each); });
  return text + "}";
}

std::string Story::changes() {
  std::vector<std::string> members;
  if (std::string changed = parts(std::exchange(changed_, 0)); !changed.empty()) members.push_back(std::move(changed));
  std::vector<std::string> curves;
  for (auto& [name, each] : curves_) {
    const std::size_t from = each.course.take_changed();
    if (from < each.course.size()) curves.push_back(curve(name, each, from));
  }
  if (!curves.empty()) members.push_back(fmt::format("\"curves\":[{}]", fmt::join(curves, ",")));
  std::vector<std::string> lines;
  for (const Message& each : log_) {
    if (each.number > sent_messages_) lines.push_back(message(each));
  }
  sent_messages_ = messages_;
  if (!lines.empty()) members.push_back(fmt::format("\"log\":[{}]", fmt::join(lines, ",")));
  return fmt::format("{{{}}}", fmt::join(members, ","));
}

std::string Story::metrics() const {
  std::vector<PassEvent> passes;
  for (const auto& [graph, pass] : passes_) passes.push_back(pass);
  return prometheus_text(run_, !end_, tick_, rates_.now(), passes);
}

}  // namespace millrace::page

#include "scaling.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "common/text_table.h"
#include "config/plan.h"
#include "millrace/error.h"
#include "millrace/observer.h"
#include "prepare/devices.h"
#include "rows.h"
#include "run/prepare.h"
#include "run/runner.h"
#include "values.h"
#include "what_if.h"

namespace millrace {

NLOHMANN_JSON_SERIALIZE_ENUM(ScalingKind, {{ScalingKind::strong, "strong"}, {ScalingKind::weak, "weak"}})

template <>
inline constexpr auto kRowMembers<ScalingPoint> = std::tuple(
    RowMember{"scaling", &ScalingPoint::kind}, RowMember{"replicas", &ScalingPoint::replicas},
    RowMember{"batch", &ScalingPoint::batch}, RowMember{"images_per_second", &ScalingPoint::images_per_second},
    RowMember{"band", &ScalingPoint::band}, RowMember{"efficiency", &ScalingPoint::efficiency},
    RowMember{"predicted", &ScalingPoint::predicted}, RowMember{"low", &ScalingPoint::low},
    RowMember{"high", &ScalingPoint::high}, RowMember{"step_seconds", &ScalingPoint::step_seconds},
    RowMember{"compute_seconds", &ScalingPoint::compute_seconds}, RowMember{"exposed_seconds", &ScalingPoint::exposed_seconds},
    RowMember{"reduce_seconds", &ScalingPoint::reduce_seconds}, RowMember{"hidden", &ScalingPoint::hidden});

template <>
inline constexpr auto kRowMembers<AccuracyPoint> = std::tuple(RowMember{"scaling", &AccuracyPoint::kind},
                                                              RowMember{"replicas", &AccuracyPoint::replicas},
                                                              RowMember{"batch", &AccuracyPoint::batch},
                                                              RowMember{"seconds", &AccuracyPoint::seconds},
                                                              RowMember{"epoch", &AccuracyPoint::epoch},
                                                              RowMember{"accuracy", &AccuracyPoint::accuracy});

namespace {

struct Validation {
  double seconds = 0;  // since training began
  double epoch = 0;
  double accuracy = 0;  // from 0 to 1
};

constexpr const char* kFigure = "accuracy";

// Stops the run when it reaches the accuracy. The run calls it on one thread.
class AccuracyWatch final : public RunObserver {
 public:
  AccuracyWatch(double wanted, bool validates) : wanted_(wanted), validates_(validates) {}

  void start(const RunStart& event, RunControl& control) override {
    control_ = &control;
    begin_ = event.elapsed_seconds;
  }
  void epoch(const EpochEvent& event) override {
    if (!validates_) look(event.graph, event.figures, event.elapsed_seconds, static_cast<double>(event.epoch));
  }
  void pass(const PassEvent& event) override {
    if (event.best_step == 0) look(event.graph, event.figures, event.elapsed_seconds, event.epoch);
  }

  const std::vector<Validation>& validations() const { return validations_; }

 private:
  void look(const std::string& graph, const std::vector<Figure>& figures, double now, double epoch) {
    const auto found = std::ranges::find(figures, kFigure, &Figure::name);
    if (found == figures.end()) return;
    if (graph_.empty()) graph_ = graph;
    if (graph != graph_) return;
    validations_.push_back({now - begin_, epoch, found->value});
    if (found->value >= wanted_) control_->stop();
  }

  const double wanted_;
  const bool validates_;
  RunControl* control_ = nullptr;
  double begin_ = 0;
  std::string graph_;  // the first one with an accuracy
  std::vector<Validation> validations_;
};

// All validations until the first one that reaches `accuracy`, or until the file's last epoch; without a validation graph, the
// means of epochs. Empty on ranks other than 0. Throws Error(usage) if nothing measures an accuracy.
std::vector<Validation> train_to_accuracy(const ProfiledFile& what, const Registry& registry, double accuracy, Group* group) {
  std::vector<std::string> overrides = what.overrides;
  overrides.insert(overrides.end(), {"run.folder=", "observe.console.quiet=true"});
  Pipeline pipeline = load_pipeline(what.file, overrides, registry);
  pipeline.stop = {};
  RunOptions options;
  options.devices = what.devices;
  options.group = group;
  const auto watch = std::make_shared<AccuracyWatch>(accuracy, pipeline.graphs.size() > 1);
  options.hooks.observer = watch;
  const auto prepared = prepare(pipeline, registry, options);
  prepared->open_graphs();
  run_once(*prepared);
  if (options.is_first() && watch->validations().empty()) {
    fail(ErrorKind::usage, "--to-accuracy: '{}' has no accuracy: its loss is not one of classes", what.file);
  }
  return watch->validations();
}

constexpr std::array kScalings = {ScalingKind::strong, ScalingKind::weak};

const char* title_of(ScalingKind kind) {
  return kind == ScalingKind::strong ? "strong scaling: the batch stays" : "weak scaling: the batch of a replica stays";
}

ScalingPoint point_of(const Calibration& measured) {
  const Predictor predictor(measured);
  const Window sum = measured.sum();
  const DeviceFacts& devices = measured.facts.devices;
  ScalingPoint point{.replicas = devices.replicas,
                     .batch = measured.facts.batch,
                     .images_per_second = predictor.measured(),
                     .band = predictor.measured_band(),
                     .step_seconds = sum.seconds / sum.steps};
  point.compute_seconds = sum.device_seconds / devices.here / sum.steps;
  if (devices.replicas == 1) return point;
  point.exposed_seconds = sum.exposed_seconds / devices.here / sum.steps;
  point.reduce_seconds = sum.reduce_seconds / sum.steps;
  if (point.reduce_seconds > 0) point.hidden = std::max(0.0, 1 - point.exposed_seconds / point.reduce_seconds);
  return point;
}

// A run with a given number of replicas.
struct RunSize {
  ScalingKind kind = ScalingKind::strong;
  int replicas = 1;
  std::uint32_t batch = 0;
};

class ScalingRuns {
 public:
  ScalingRuns(const ProfiledFile& what, const Registry& registry, const CalibrationOptions& options,
              const ScalingQuestion& question)
      : what_(what), registry_(registry), options_(options), question_(question) {
    const Json facts = Json::parse(run_apart(1, question.leave, [&](Group*) {
      const RunFacts found = facts_of(what_, registry_);
      if (found.devices.replicas == 0) fail(ErrorKind::usage, "--scaling: graph '{}' uses no device", found.graph);
      return Json{{"batcher", found.graph + "." + found.stages.back().name},
                  {"backend", found.devices.backend},
                  {"batch", found.batch},
                  {"buckets", found.devices.bucket_bytes}}
          .dump();
    }));
    facts.at("batcher").get_to(batcher_);
    facts.at("backend").get_to(backend_);
    facts.at("batch").get_to(batch_);
    facts.at("buckets").get_to(bucket_bytes_);
  }

  std::vector<RunSize> sizes() const {
    std::vector<RunSize> all;
    const auto first = static_cast<std::uint32_t>(question_.replicas.front());
    for (const ScalingKind kind : kScalings) {
      for (const int count : question_.replicas) {
        const bool grows = kind == ScalingKind::weak;
        all.push_back({kind, count, grows ? batch_ * static_cast<std::uint32_t>(count) / first : batch_});
      }
    }
    return all;
  }

  // Measures the first size and predicts all. Also measures a replica's speed on fewer of the host's cores.
  std::vector<ScalingPoint> predict(const std::vector<RunSize>& all) const {
    return rows_of<ScalingPoint>(Json::parse(run_apart(ranks_of(all.front()), question_.leave, [&](Group* group) {
      Calibration first = run(all.front(), group);
      if (group != nullptr && group->rank() > 0) return std::string();
      if (question_.over_ranks) first.facts.devices.network = question_.network;
      first.facts.devices.alone = steps_alone(all, first.facts);
      const ScalingPoint measured = point_of(first);
      const Predictor predictor(first);
      std::vector<ScalingPoint> points;
      for (const RunSize& size : all) {
        const bool is_first = size.replicas == all.front().replicas;
        const std::string question = is_first ? "" : question_of(size);
        const Prediction predicted = predictor.predict(parse_question(question, first.facts));
        ScalingPoint& point = points.emplace_back(measured);
        point.kind = size.kind;
        point.predicted = predicted.images_per_second;
        point.low = predicted.low;
        point.high = predicted.high;
      }
      return json_of(points).dump();
    })));
  }

  ScalingPoint measure(const RunSize& size) const {
    return row_of<ScalingPoint>(Json::parse(run_apart(ranks_of(size), question_.leave, [&](Group* group) {
      const Calibration measured = run(size, group);
      return group != nullptr && group->rank() > 0 ? std::string() : json_of(point_of(measured)).dump();
    })));
  }

  std::vector<AccuracyPoint> train(const RunSize& size) const {
    return rows_of<AccuracyPoint>(Json::parse(run_apart(ranks_of(size), question_.leave, [&](Group* group) {
      std::vector<AccuracyPoint> points;
      for (const Validation& each : train_to_accuracy(changed(size), registry_, question_.to_accuracy, group)) {
        points.push_back({size.kind, size.replicas, size.batch, each.seconds, each.epoch, each.accuracy});
      }
      return json_of(points).dump();
    })));
  }

  const std::vector<double>& bucket_bytes() const { return bucket_bytes_; }

 private:
  static std::string question_of(const RunSize& size) { return fmt::format("replicas={},batch={}", size.replicas, size.batch); }
  std::vector<StepsAlone> steps_alone(const std::vector<RunSize>& all, const RunFacts& facts) const {
    std::vector<StepShare> asked;
    for (const RunSize& size : all) {
      const auto share = asked_share(parse_question(question_of(size), facts), facts);
      if (share && size.replicas != all.front().replicas) asked.push_back(*share);
    }
    return calibrate_steps(what_, registry_, options_, facts, asked);
  }
  int ranks_of(const RunSize& size) const { return question_.over_ranks ? size.replicas : 1; }
  ProfiledFile changed(const RunSize& size) const {
    ProfiledFile changed = what_;
    changed.devices = devices_text(backend_, size.replicas);
    if (size.batch != batch_) changed.overrides.push_back(fmt::format("{}.size={}", batcher_, size.batch));
    return changed;
  }
  Calibration run(const RunSize& size, Group* group) const {
    CalibrationOptions options = options_;
    options.group = group;
    return calibrate(changed(size), registry_, options);
  }

  const ProfiledFile& what_;
  const Registry& registry_;
  const CalibrationOptions& options_;
  const ScalingQuestion& question_;
  std::string batcher_, backend_;
  std::uint32_t batch_ = 0;
  std::vector<double> bucket_bytes_;
};

std::string milliseconds(double seconds) { return fmt::format("{:.2f}", 1e3 * seconds); }

std::string points_text(const std::vector<ScalingPoint>& points, ScalingKind kind, bool over_ranks) {
  TextTable table({over_ranks ? ">ranks" : ">replicas", ">batch", ">images/s", ">efficiency", ">predicted", ">off", ">step ms",
                   ">computes", ">waits for sums", ">other", ">all-reduce", ">hidden"},
                  0);
  for (const ScalingPoint& point : points) {
    if (point.kind != kind) continue;
    const bool has_sums = point.reduce_seconds > 0;
    table.row({std::to_string(point.replicas), std::to_string(point.batch),
               fmt::format("{:.0f} +- {:.0f}", point.images_per_second, point.band),
               fmt::format("{:.0f} %", 100 * point.efficiency),
               fmt::format("{:.0f} ({:.0f} to {:.0f})", point.predicted, point.low, point.high),
               fmt::format("{:+.0f} %", 100 * (point.predicted / point.images_per_second - 1)), milliseconds(point.step_seconds),
               milliseconds(point.compute_seconds), has_sums ? milliseconds(point.exposed_seconds) : "-",
               milliseconds(point.other_seconds()), has_sums ? milliseconds(point.reduce_seconds) : "-",
               has_sums ? fmt::format("{:.0f} %", 100 * point.hidden) : "-"});
  }
  return fmt::format("{}\n{}", title_of(kind), table.text());
}

// When each run first reached the accuracy.
std::string accuracy_text(const Scaling& scaling) {
  TextTable table({"scaling", ">replicas", ">batch", ">seconds", ">epochs", ">best accuracy", ">times as fast"}, 0);
  double of_first = 0;
  for (const ScalingPoint& point : scaling.points) {
    const bool is_first = point.replicas == scaling.points.front().replicas;
    double best = 0;
    const AccuracyPoint* reached = nullptr;
    for (const AccuracyPoint& each : scaling.accuracies) {
      if (each.replicas != point.replicas || each.batch != point.batch || (each.kind != point.kind && !is_first)) continue;
      best = std::max(best, each.accuracy);
      if (reached == nullptr && each.accuracy >= scaling.question.to_accuracy) reached = &each;
    }
    if (is_first && reached != nullptr) of_first = reached->seconds;
    table.row({point.kind == ScalingKind::strong ? "strong" : "weak", std::to_string(point.replicas), std::to_string(point.batch),
               reached ? fmt::format("{:.1f}", reached->seconds) : "not reached",
               reached ? fmt::format("{:.4g}", reached->epoch) : "-", fmt::format("{:.2f} %", 100 * best),
               reached && of_first > 0 ? fmt::format("{:.2f}", of_first / reached->seconds) : "-"});
  }
  return fmt::format("\ntime to {:.4g} % accuracy\n{}", 100 * scaling.question.to_accuracy, table.text());
}

}  // namespace

double ScalingPoint::other_seconds() const { return std::max(0.0, step_seconds - compute_seconds - exposed_seconds); }

std::vector<int> parse_replicas(std::string_view text) {
  std::vector<int> replicas;
  for (const std::string_view part : split_list(text)) {
    replicas.push_back(static_cast<int>(count_value("--scaling", std::string(part))));
    if (replicas.size() > 1 && replicas.back() <= replicas[replicas.size() - 2]) {
      fail(ErrorKind::usage, "--scaling = '{}': numbers of replicas must ascend", text);
    }
  }
  if (replicas.empty()) fail(ErrorKind::usage, "--scaling: name numbers of replicas, such as 1,2,4");
  return replicas;
}

std::string devices_text(const std::string& backend, int replicas) {
  if (backend == kHostBackend) return fmt::format("{}*{}", backend, replicas);
  std::string text = backend + ":0";
  for (int i = 1; i < replicas; ++i) text += fmt::format(",{}", i);
  return text;
}

Scaling measure_scaling(const ProfiledFile& what, const Registry& registry, const CalibrationOptions& options,
                        const ScalingQuestion& question) {
  const ScalingRuns runs(what, registry, options, question);
  const std::vector<RunSize> sizes = runs.sizes();
  Scaling scaling{.question = question, .points = runs.predict(sizes), .accuracies = {}, .bucket_bytes = runs.bucket_bytes()};
  const ScalingPoint first = scaling.points.front();
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    ScalingPoint& point = scaling.points[i];
    if (sizes[i].replicas != first.replicas) {
      const ScalingPoint predicted = std::exchange(point, runs.measure(sizes[i]));
      point.kind = predicted.kind;
      point.predicted = predicted.predicted, point.low = predicted.low, point.high = predicted.high;
    }
    point.efficiency = point.images_per_second * first.replicas / (first.images_per_second * point.replicas);
    const bool is_done = i > 0 && sizes[i].replicas == first.replicas;  // weak scaling begins with the same run
    if (question.to_accuracy <= 0 || is_done) continue;
    const std::vector<AccuracyPoint> found = runs.train(sizes[i]);
    scaling.accuracies.insert(scaling.accuracies.end(), found.begin(), found.end());
  }
  return scaling;
}

std::string scaling_text(const Scaling& scaling) {
  std::string text;
  for (const ScalingKind kind : kScalings) {
    text += points_text(scaling.points, kind, scaling.question.over_ranks) + (kind == kScalings.back() ? "" : "\n");
  }
  if (scaling.question.to_accuracy > 0) text += accuracy_text(scaling);
  const int most = scaling.question.replicas.back();
  const bool over_ranks = scaling.question.over_ranks;
  return text + "\n" + bucket_text(scaling.bucket_bytes, over_ranks ? 1 : most, over_ranks ? most : 1, scaling.question.network);
}

std::string scaling_csv(const std::vector<ScalingPoint>& points) { return csv_of(points); }
std::string accuracy_csv(const std::vector<AccuracyPoint>& points) { return csv_of(points); }

}  // namespace millrace

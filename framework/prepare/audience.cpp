#include "prepare/audience.h"

#include <fmt/format.h>

#include <chrono>
#include <iterator>
#include <utility>

#include "prepare/graph_build.h"

namespace millrace {

Audience::Audience(const Pipeline& pipeline, const RunOptions& options) : pipeline_(pipeline), options_(options) {
  if (options.is_first()) {
    add_observers();
    return;
  }
  reporter_ = std::make_unique<Reporter>(*options.group);
  observers_.add("process 0", Delivery::all, std::make_shared<RelayObserver>(*reporter_),
                 requests_.control("observer of process 0"));
}

void Audience::add_observers() {
  Diagnostics errors;
  for (const ObserverPlan& plan : pipeline_.observers) {
    if (auto observer = plan.type->create(plan.table, "[observe." + plan.name + "]", errors)) {
      observers_.add(plan.name, plan.type->delivery, std::move(observer), requests_.control("observer " + plan.name));
    }
  }
  errors.throw_if_any();
  if (options_.hooks.observer) observers_.add("the program", Delivery::all, options_.hooks.observer, control_);
}

void Audience::open_log(const GraphPlan& stepping_graph) {
  const RunParams& run = pipeline_.run;
  log_ = std::make_unique<RunLog>(
      RunLog::Options{.log_every = static_cast<std::uint64_t>(run.log_every),
                      .stepping_graph = stepping_graph.name,
                      .reports_steps = trains(stepping_graph),
                      .steps_are_reported = has_reports(stepping_graph),
                      .rate_factor = options_.hooks.rate_factor,
                      .skips = run.on_nan == "skip" && !options_.resume.replays,
                      .most_in_a_row = static_cast<std::uint64_t>(run.nan_limit),
                      .output = pipeline_.network ? std::optional(pipeline_.network->output()) : std::nullopt,
                      .outputs = options_.folders.outputs},
      observers_, requests_);
}

void Audience::warn_once(std::string text) {
  if (options_.is_first() && !text.empty()) observers_.warn(std::move(text));
}

void Audience::share() {
  if (options_.group == nullptr) return;
  requests_.share();
  log_->share_reports(options_.group->size(), options_.is_first() ? nullptr : reporter_.get());
}

void Audience::listen() {
  if (options_.group == nullptr || !options_.is_first()) return;
  receiver_ = std::make_unique<ReportReceiver>(
      *options_.group, ReportReceiver::Take{[this](int rank, std::uint64_t pass, const RunServices::StepReport& report) {
                                              log_->report(rank, pass, report);
                                            },
                                            [this](BadSampleEvent event) { log_->findings().bad_samples.add(std::move(event)); },
                                            [this](const std::set<int>& ranks, const std::string& text) {
                                              if (!warnings().contains(text))
                                                warn(fmt::format("{}: {}", ranks_text(ranks), text));
                                            },
                                            [this](int rank, std::vector<DeviceTelemetry> devices, bool is_last) {
                                              const Lock lock(mutex_);
                                              if (is_last) {
                                                ended_.insert(rank);
                                              } else if (ended_.contains(rank)) {
                                                return;  // sent before the last one, but late
                                              }
                                              others_[rank] = std::move(devices);
                                              has_ended_.notify_all();
                                            }});
}

std::vector<DeviceTelemetry> Audience::devices_of_others() const {
  const Lock lock(mutex_);
  std::vector<DeviceTelemetry> all;
  for (const auto& [rank, devices] : others_) all.insert(all.end(), devices.begin(), devices.end());
  return all;
}

void Audience::share_last(const std::vector<DeviceTelemetry>& devices) {
  constexpr std::chrono::seconds kPatience{1};  // a rank that was lost sends nothing
  if (options_.group == nullptr) return;
  if (reporter_) return reporter_->send(devices, true);
  const auto until = std::chrono::steady_clock::now() + kPatience;
  Lock lock(mutex_);
  while (std::ssize(ended_) < options_.group->size() - 1 && lock.wait_until(has_ended_, until)) continue;
}

void Audience::end(RunEnd event) {
  event.bad_samples = log_->findings().bad_samples.count();
  observers_.end(std::move(event), [this](const std::string& observer) {
    if (options_.hooks.activity) options_.hooks.activity->set("observer " + observer, true);
  });
}

}  // namespace millrace

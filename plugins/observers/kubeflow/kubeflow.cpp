// Reports the progress of a TrainJob: Kubeflow Trainer 2.2, KEP-2779 (feature gate TrainJobStatus).
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <web/environment.h>
#include <web/http.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <ctime>
#include <fstream>
#include <iterator>
#include <map>

#include "millrace/observer.h"
#include "millrace/plugin.h"
#include "millrace/util/output_file.h"

namespace millrace {
namespace {

constexpr auto kPeriod = std::chrono::seconds(5);  // the controller refuses more frequent requests
constexpr web::Milliseconds kPatience{2'000};      // for one request; the end of a run may wait this long
constexpr std::size_t kLongestReply = 64 << 10;

std::string environment(const char* name) { return web::process_environment(name); }

// Kubernetes renews the file, so each request reads it.
std::string token() {
  std::ifstream file(environment("KUBEFLOW_TRAINER_SERVER_TOKEN"), std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(file), {}};
  std::erase_if(text, [](char c) { return c == '\n' || c == '\r'; });
  return text;
}

std::string now() {
  return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}",
                     fmt::gmtime(std::chrono::system_clock::to_time_t(std::chrono::system_clock::now())));
}

// {"trainerStatus":{"progressPercentage":45,"estimatedRemainingSeconds":80,"metrics":[{"name":"loss","value":"0.25"}],
// "lastUpdatedTime":"2026-01-01T00:00:00Z"}}. Values of metrics are texts, as in Kubernetes.
std::string status_text(const TickEvent& tick, const std::map<std::string, double>& metrics) {
  const double share = tick.steps == 0 ? 0 : static_cast<double>(tick.step) / static_cast<double>(tick.steps);
  std::string text = fmt::format("{{\"trainerStatus\":{{\"progressPercentage\":{}", static_cast<int>(100 * std::min(share, 1.0)));
  if (tick.seconds_left > 0 || tick.step == tick.steps) {
    text += fmt::format(",\"estimatedRemainingSeconds\":{:.0f}", std::ceil(tick.seconds_left));
  }
  text += ",\"metrics\":[";
  bool is_first = true;
  for (const auto& [name, value] : metrics) {
    text += std::exchange(is_first, false) ? "{\"name\":" : ",{\"name\":";
    append_json(text, name);
    text += fmt::format(",\"value\":\"{:.6g}\"}}", value);
  }
  return text + fmt::format("],\"lastUpdatedTime\":\"{}\"}}}}", now());
}

// Enabled by default; does nothing without the variables of a TrainJob. A failed request is not repeated: the next one has newer
// values. The run waits for a request only at its end, for kPatience.
class KubeflowObserver final : public RunObserver {
 public:
  struct Params {};
  static void describe(ObserverDescription<Params>& d) {
    d.name("kubeflow")
        .text(
            "In a Kubeflow TrainJob, where KUBEFLOW_TRAINER_SERVER_URL is set: reports progress, remaining time and metrics to "
            "the job's status, at most every 5 seconds.")
        .delivery(Delivery::latest)
        .by_default();
  }

  void start(const RunStart&, RunControl& control) override {
    control_ = &control;
    url_ = environment("KUBEFLOW_TRAINER_SERVER_URL");
  }
  void tick(const TickEvent& e) override {
    if (url_.empty()) return;
    tick_ = e;
    for (const Figure& figure : e.figures) metrics_[figure.name] = figure.value;
    metrics_["epoch"] = e.epoch;
    metrics_["epochs"] = e.epochs;
    metrics_["images_per_second"] = e.images_per_second;
    if (Clock::now() < due_) return;
    due_ = Clock::now() + kPeriod;
    post();
  }
  void pass(const PassEvent& e) override {
    for (const Figure& figure : e.figures) metrics_[e.graph + "/" + figure.name] = figure.value;
  }
  // A server that just timed out gets no more requests.
  void end(const RunEnd& e) override {
    if (url_.empty() || tick_.graph.empty() || !works_) return;
    if (e.error.empty()) {  // the last tick was before the last step
      tick_.step = e.step;
      metrics_["epoch"] = e.epoch;
    }
    tick_.seconds_left = 0;
    post();
  }

 private:
  using Clock = std::chrono::steady_clock;

  void post() {
    const std::string body = status_text(tick_, metrics_);
    web::HttpRequest request;
    request.method = "POST";
    request.url = url_;
    request.body = {reinterpret_cast<const std::uint8_t*>(body.data()), body.size()};
    request.authorities = environment("KUBEFLOW_TRAINER_SERVER_CA_CERT");
    request.headers = {{"Content-Type", "application/json"}};
    if (const std::string bearer = token(); !bearer.empty()) request.headers.emplace_back("Authorization", "Bearer " + bearer);
    request.connect = request.stall = request.total = kPatience;
    request.longest_text = kLongestReply;
    std::string cause;
    try {
      const web::HttpReply reply = http_.perform(request);
      cause = reply.broken;
      if (cause.empty() && reply.head.status / 100 != 2) cause = fmt::format("the response was HTTP {}", reply.head.status);
    } catch (const Error& error) {
      cause = error.what();
    }
    works_ = cause.empty();
    if (!works_ && !std::exchange(warned_, true)) {
      control_->warn(fmt::format(
          "the status of the TrainJob is not up to date: '{}': {}; the run continues, and further failures are not logged", url_,
          cause));
    }
  }

  web::Http http_;
  RunControl* control_ = nullptr;
  std::string url_;  // empty if this is not a TrainJob
  TickEvent tick_;   // the newest
  std::map<std::string, double> metrics_;
  Clock::time_point due_{};
  bool works_ = true, warned_ = false;
};

MILLRACE_PLUGIN("observer_kubeflow", "1.0", "Progress of a TrainJob of Kubeflow Trainer.") {
  registry.add_observer<KubeflowObserver>();
}

}  // namespace
}  // namespace millrace

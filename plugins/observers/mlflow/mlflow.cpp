// Records a run in MLflow.
#include <fmt/format.h>
#include <web/environment.h>
#include <web/http.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "millrace/error.h"
#include "millrace/observer.h"
#include "millrace/plugin.h"
#include "millrace/util/earlier_events.h"
#include "millrace/util/output_file.h"
#include "millrace/util/run_settings.h"
#include "millrace/util/text.h"

namespace millrace::mlflow {

namespace {

using Json = nlohmann::json;

constexpr std::size_t kLongestKey = 250, kLongestValue = 500;  // 6,000 from MLflow 2.9 on

// JSON cannot express non-finite values; MLflow reads these texts.
Json value_of(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "Infinity" : "-Infinity";
  return value;
}

// A name that MLflow accepts: at most 250 letters, digits and _-. :/
std::string key_of(std::string_view name) {
  std::string key(name.substr(0, kLongestKey));
  std::ranges::replace_if(
      key,
      [](char c) {
        const bool is_plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
        return !is_plain && std::string_view("_-. :/").find(c) == std::string_view::npos;
      },
      '_');
  return key;
}

struct Metric {
  std::string key;  // key_of()
  double value = 0;
  std::int64_t milliseconds = 0;  // since 1970
  std::uint64_t step = 0;
};

// How requests are authorised. Each may be empty.
struct Access {
  std::string authorization;  // a header: "Bearer ...", or "Basic ..."
  std::string authorities;    // a file of certificates to trust
};

using Texts = std::vector<std::pair<std::string, std::string>>;

// The part of MLflow's REST API, version 2.0, that recording a run needs: https://mlflow.org/docs/latest/rest-api.html
// Each call is one request, or a few. Throws Error(storage) with the server's answer, within kPatience per request, and within
// about a second of a stop request. Not thread-safe.
class Client {
 public:
  static constexpr web::Milliseconds kPatience{5'000};
  static constexpr std::size_t kMaxMetrics = 1000, kMaxTexts = 100;  // MLflow's limits per request

  Client(std::string uri, Access access) : uri_(std::move(uri)), access_(std::move(access)) {}

  void stop_at(std::stop_token stop) { stop_ = std::move(stop); }

  std::string experiment(const std::string& name);  // its identifier; created if missing
  std::string create_run(const std::string& experiment, const std::string& name, std::int64_t milliseconds, const Texts& tags);
  void reopen_run(const std::string& run) { update(run, "RUNNING", 0); }
  std::map<std::string, std::uint64_t> newest_steps(const std::string& run);  // by metric
  void log_params(const std::string& run, const Texts& params);
  void log_metrics(const std::string& run, std::span<const Metric> metrics);  // REQUIRES: at most kMaxMetrics
  // `status`: FINISHED, FAILED or KILLED. `patience`: instead of kPatience.
  void end_run(const std::string& run, const std::string& status, std::int64_t milliseconds, web::Milliseconds patience);

 private:
  nlohmann::json call(const std::string& method, const std::string& path, const nlohmann::json& body,
                      web::Milliseconds patience = kPatience);
  void update(const std::string& run, const std::string& status, std::int64_t milliseconds,
              web::Milliseconds patience = kPatience);

  web::Http http_;
  const std::string uri_;
  const Access access_;
  std::stop_token stop_;
};

std::string percent_encoded(std::string_view text) {
  std::string encoded;
  for (const char c : text) {
    const bool is_plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
    encoded += is_plain ? std::string(1, c) : fmt::format("%{:02X}", static_cast<unsigned char>(c));
  }
  return encoded;
}

Json texts(const Texts& all) {
  Json list = Json::array();
  for (const auto& [key, value] : all)
    list.push_back({{"key", key_of(key)}, {"value", shown(utf8_text(value), kLongestValue - 3)}});
  return list;
}

// MLflow's message about a refused request: {"error_code":"...","message":"..."}.
std::string refusal(const web::HttpReply& reply) {
  const Json body = Json::parse(reply.text, nullptr, false);
  const bool has_message = body.is_object() && body.contains("message") && body["message"].is_string();
  const std::string message = has_message ? body["message"].get<std::string>() : reply.text;
  return fmt::format("HTTP {}: {}", reply.head.status, shown(message));
}

// RFC 7617
std::string basic_authorization(std::string_view user, std::string_view password) {
  constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text = fmt::format("{}:{}", user, password), encoded = "Basic ";
  const std::size_t padding = (3 - text.size() % 3) % 3;
  text.append(padding, '\0');
  for (std::size_t at = 0; at < text.size(); at += 3) {
    std::uint32_t bits = 0;
    for (std::size_t i = 0; i < 3; ++i) bits = bits << 8U | static_cast<std::uint8_t>(text[at + i]);
    for (unsigned shift = 24; shift > 0; shift -= 6) encoded += kDigits[bits >> (shift - 6) & 63U];
  }
  return encoded.replace(encoded.size() - padding, padding, padding, '=');
}

Json Client::call(const std::string& method, const std::string& path, const Json& body, web::Milliseconds patience) {
  if (stop_.stop_requested()) fail(ErrorKind::storage, "'{}': no time is left", path);
  const std::string text = body.is_null() ? "" : body.dump();
  web::HttpRequest request;
  if (method != "GET") request.method = method;
  request.url = fmt::format("{}/api/2.0/mlflow/{}", uri_, path);
  request.body = {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()};
  request.headers = {{"Content-Type", "application/json"}};
  if (!access_.authorization.empty()) request.headers.emplace_back("Authorization", access_.authorization);
  request.authorities = access_.authorities;
  request.stop = stop_;
  request.connect = request.stall = request.total = patience;
  const web::HttpReply reply = http_.perform(request);
  if (!reply.broken.empty()) fail(ErrorKind::storage, "'{}': {}", request.url, reply.broken);
  if (reply.head.status == 404 && method == "GET") return nullptr;
  if (reply.head.status != 200) fail(ErrorKind::storage, "'{}': {}", request.url, refusal(reply));
  Json answer = Json::parse(reply.text.empty() ? "{}" : reply.text, nullptr, false);
  if (!answer.is_object()) fail(ErrorKind::storage, "'{}': the response is not JSON: {}", request.url, shown(reply.text));
  return answer;
}

// Two runs may begin at once: if another one has just created it, it is found then.
std::string Client::experiment(const std::string& name) {
  const auto find = [&]() -> std::string {
    const Json found = call("GET", "experiments/get-by-name?experiment_name=" + percent_encoded(name), nullptr);
    return found.is_null() ? "" : found.at("experiment").at("experiment_id").get<std::string>();
  };
  if (const std::string found = find(); !found.empty()) return found;
  try {
    return call("POST", "experiments/create", {{"name", name}}).at("experiment_id").get<std::string>();
  } catch (const Error&) {
    if (const std::string found = find(); !found.empty()) return found;
    throw;
  }
}

std::string Client::create_run(const std::string& experiment, const std::string& name, std::int64_t milliseconds,
                               const Texts& tags) {
  const Json made =
      call("POST", "runs/create",
           {{"experiment_id", experiment}, {"run_name", name}, {"start_time", milliseconds}, {"tags", texts(tags)}});
  return made.at("run").at("info").at("run_id").get<std::string>();
}

std::map<std::string, std::uint64_t> Client::newest_steps(const std::string& run) {
  std::map<std::string, std::uint64_t> steps;
  const Json found = call("GET", "runs/get?run_id=" + percent_encoded(run), nullptr);
  if (found.is_null()) fail(ErrorKind::storage, "'{}' has no run {}", uri_, run);
  const Json& data = found.at("run").at("data");
  if (!data.contains("metrics")) return steps;
  for (const Json& metric : data["metrics"]) steps[metric.at("key")] = metric.value("step", std::uint64_t{0});
  return steps;
}

void Client::log_params(const std::string& run, const Texts& params) {
  for (std::size_t at = 0; at < params.size(); at += kMaxTexts) {
    const auto begin = params.begin() + static_cast<std::ptrdiff_t>(at);
    const auto end = begin + static_cast<std::ptrdiff_t>(std::min(kMaxTexts, params.size() - at));
    call("POST", "runs/log-batch", {{"run_id", run}, {"params", texts({begin, end})}});
  }
}

void Client::log_metrics(const std::string& run, std::span<const Metric> metrics) {
  Json list = Json::array();
  for (const Metric& each : metrics) {
    list.push_back({{"key", each.key}, {"value", value_of(each.value)}, {"timestamp", each.milliseconds}, {"step", each.step}});
  }
  call("POST", "runs/log-batch", {{"run_id", run}, {"metrics", std::move(list)}});
}

void Client::update(const std::string& run, const std::string& status, std::int64_t milliseconds, web::Milliseconds patience) {
  Json body = {{"run_id", run}, {"status", status}};
  if (milliseconds > 0) body["end_time"] = milliseconds;
  call("POST", "runs/update", body, patience);
}

void Client::end_run(const std::string& run, const std::string& status, std::int64_t milliseconds, web::Milliseconds patience) {
  update(run, status, milliseconds, patience);
}

constexpr auto kPeriod = std::chrono::seconds(1);          // between two requests
constexpr auto kPause = std::chrono::seconds(10);          // after a failed request
constexpr auto kSyncPatience = std::chrono::seconds(1);    // the longest wait of a checkpoint
constexpr auto kEndPatience = std::chrono::seconds(10);    // the longest wait at the end of a run, plus about a second
constexpr std::size_t kMaxWaiting = 200'000;              // metrics
constexpr const char* kIdentifierFile = "mlflow_run.txt";  // in the run's folder, for a resumed run

std::int64_t milliseconds_now() {
  const auto time = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::milliseconds>(time).count();
}

// As in MLflow's own client: a token comes first.
Access access() {
  Access access;
  access.authorities = web::process_environment("MLFLOW_TRACKING_SERVER_CERT_PATH");
  const std::string token = web::process_environment("MLFLOW_TRACKING_TOKEN");
  const std::string user = web::process_environment("MLFLOW_TRACKING_USERNAME");
  if (!token.empty()) {
    access.authorization = "Bearer " + token;
  } else if (!user.empty()) {
    access.authorization = basic_authorization(user, web::process_environment("MLFLOW_TRACKING_PASSWORD"));
  }
  return access;
}

// Data of a run to record, and where, except its metrics.
struct RunRecord {
  std::string uri;
  Access access;
  std::string experiment, name;
  std::filesystem::path folder;
  std::optional<ResumedAt> resumed;
  std::int64_t begin = 0;  // milliseconds since 1970
  Texts params, tags;
};

// Sends in batches on its own thread. Refused data are sent again later. Thread-safe.
class Sender {
 public:
  Sender(RunRecord record, std::function<void(const std::string& text)> warn)
      : record_(std::move(record)), client_(record_.uri, record_.access), warn_(std::move(warn)) {
    thread_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
  }
  ~Sender() {
    {
      const std::lock_guard lock(mutex_);  // otherwise the thread may miss it just before a wait
      thread_.request_stop();
    }
    changed_.notify_all();
  }

  void add(std::vector<Metric> metrics) {
    const std::lock_guard lock(mutex_);
    for (Metric& metric : metrics) waiting_.push_back(std::move(metric));
    for (; waiting_.size() > kMaxWaiting; ++lost_) waiting_.pop_front();
  }

  // Returns when all data are sent, after kSyncPatience at most, and at once if the server does not respond.
  void sync() {
    if (failed_) return;
    std::unique_lock lock(mutex_);
    hurries_ = true;
    changed_.notify_all();
    changed_.wait_for(lock, kSyncPatience, [this] { return !hurries_; });
  }

  // Sends the rest and the end. Returns how many metrics are missing, and whether the end is: after kEndPatience at most,
  // aborting the current request, and as soon as one fails.
  struct Missing {
    std::size_t metrics = 0;
    bool end = false;
  };
  Missing finish(const std::string& status) {
    std::unique_lock lock(mutex_);
    status_ = status;
    changed_.notify_all();
    if (!changed_.wait_for(lock, kEndPatience, [this] { return ended_ || gave_up_; })) thread_.request_stop();
    return {waiting_.size() + sending_ + lost_, !ended_};
  }

 private:
  void run(const std::stop_token& stop) {
    client_.stop_at(stop);
    while (!stop.stop_requested()) {
      bool is_last = false;
      {
        std::unique_lock lock(mutex_);
        changed_.wait_for(lock, failed_ ? kPause : kPeriod,
                          [&] { return stop.stop_requested() || hurries_ || !status_.empty(); });
        is_last = !status_.empty();
      }
      if (stop.stop_requested()) return;
      try {
        send_all(stop);
        failed_ = false;
        if (is_last && !stop.stop_requested()) client_.end_run(identifier_, status_, milliseconds_now(), Client::kPatience);
      } catch (const std::exception& error) {
        failed_ = true;
        if (!stop.stop_requested() && !std::exchange(warned_, true)) {
          warn_(fmt::format("{}; the run continues, and metrics are sent later", error.what()));
        }
      }
      const std::lock_guard lock(mutex_);
      hurries_ = false;
      if (is_last) (failed_ ? gave_up_ : ended_) = true;
      changed_.notify_all();
      if (is_last) return;
    }
  }

  void send_all(const std::stop_token& stop) {
    if (identifier_.empty()) begin();
    if (!is_kept_) keep_identifier();
    if (!sent_params_) {
      client_.log_params(identifier_, record_.params);
      sent_params_ = true;
    }
    while (!stop.stop_requested()) {
      std::vector<Metric> batch = take();
      if (batch.empty()) return;
      try {
        client_.log_metrics(identifier_, batch);
      } catch (...) {
        give_back(std::move(batch));
        throw;
      }
      const std::lock_guard lock(mutex_);
      sending_ = 0;
    }
  }

  // MLflow stores every value it receives: values that it already has from the steps before the resumption are not sent again.
  std::vector<Metric> take() {
    std::vector<Metric> batch;
    const std::lock_guard lock(mutex_);
    for (; !waiting_.empty() && batch.size() < Client::kMaxMetrics; waiting_.pop_front()) {
      const auto sent = sent_steps_.find(waiting_.front().key);
      if (sent == sent_steps_.end() || waiting_.front().step > sent->second) batch.push_back(std::move(waiting_.front()));
    }
    sending_ = batch.size();
    return batch;
  }
  void give_back(std::vector<Metric> batch) {
    const std::lock_guard lock(mutex_);
    waiting_.insert(waiting_.begin(), std::make_move_iterator(batch.begin()), std::make_move_iterator(batch.end()));
    sending_ = 0;
  }

  void begin() {
    const std::filesystem::path file = record_.folder / kIdentifierFile;
    std::string before;
    if (record_.resumed) std::ifstream(file) >> before;
    if (before.empty()) {
      identifier_ = client_.create_run(client_.experiment(record_.experiment), record_.name, record_.begin, record_.tags);
      return;
    }
    for (const auto& [key, newest] : client_.newest_steps(before)) {
      if (const auto step = step_today(newest, *record_.resumed)) sent_steps_[key] = *step;
    }
    client_.reopen_run(before);
    identifier_ = before;
    is_kept_ = sent_params_ = true;  // parameters cannot be changed there
  }

  // If it cannot be written, metrics are sent anyway.
  void keep_identifier() {
    try {
      OutputFile file((record_.folder / kIdentifierFile).string());
      file.write(identifier_ + "\n");
      file.commit();
      is_kept_ = true;
    } catch (const Error& error) {
      if (std::exchange(warned_of_file_, true)) return;
      warn_(fmt::format("{}; until a retry succeeds, resuming this run would begin a new one at MLflow", error.what()));
    }
  }

  // Used only by the thread.
  const RunRecord record_;
  Client client_;
  const std::function<void(const std::string& text)> warn_;
  std::string identifier_;                           // the run's id at MLflow; empty if it has not begun there
  std::map<std::string, std::uint64_t> sent_steps_;  // by metric: the newest valid one (step_today)
  bool is_kept_ = false;                             // the identifier is stored for a resumed run
  bool sent_params_ = false, warned_ = false, warned_of_file_ = false;
  std::atomic<bool> failed_{false};  // about the last request; read by all threads

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Metric> waiting_;
  std::size_t sending_ = 0, lost_ = 0;
  std::string status_;  // final status; empty while the run continues
  bool hurries_ = false, ended_ = false, gave_up_ = false;
  std::jthread thread_;  // last: it uses all of the above
};

// Metrics have the names of TensorBoard's scalars: "train/loss". Only the end waits for the server.
class MlflowObserver final : public RunObserver {
 public:
  struct Params {
    std::string uri, experiment;
  };
  static void describe(ObserverDescription<Params>& d) {
    d.name("mlflow").text(
        "Records the run at an MLflow server: pipeline keys as parameters, metrics of steps, epochs and passes, and the run's "
        "status. Tokens and passwords come from the environment.");
    d.params.add("uri", &Params::uri).text("server address, http://host:5000; default: MLFLOW_TRACKING_URI");
    d.params.add("experiment", &Params::experiment).text("default: MLFLOW_EXPERIMENT_NAME, else the run's name");
  }
  explicit MlflowObserver(Params params) : params_(std::move(params)) {
    if (params_.uri.empty()) return;
    if (!params_.uri.starts_with("http://") && !params_.uri.starts_with("https://")) {
      fail(ErrorKind::usage, "uri: expected http://host:port or https://host, found '{}'", params_.uri);
    }
    if (params_.uri.find('@') != std::string::npos) {
      fail(ErrorKind::usage,
           "uri: must not contain a password: set MLFLOW_TRACKING_TOKEN, or MLFLOW_TRACKING_USERNAME and _PASSWORD");
    }
  }

  void start(const RunStart& e, RunControl& control) override {
    if (e.folder.empty()) return;  // such as --find-rate
    control_ = &control;
    const auto first_of = [](const std::string& key, const char* variable, const std::string& otherwise) {
      if (!key.empty()) return key;
      const std::string value = web::process_environment(variable);
      return value.empty() ? otherwise : value;
    };
    uri_ = first_of(params_.uri, "MLFLOW_TRACKING_URI", "");
    while (uri_.ends_with('/')) uri_.pop_back();
    if (uri_.empty()) fail(ErrorKind::usage, "where is the server? Set [observe.mlflow] uri, or MLFLOW_TRACKING_URI");
    RunRecord record;
    record.experiment = first_of(params_.experiment, "MLFLOW_EXPERIMENT_NAME", e.name);
    record.name = e.folder.filename().string();
    record.folder = e.folder;
    if (e.resumed) record.resumed = resumed_at(e);
    begin_ = milliseconds_now() - static_cast<std::int64_t>(1000 * e.elapsed_seconds);
    record.begin = begin_;
    for (const auto& [key, value] : run_settings(e)) {
      record.params.emplace_back(key, value.kind() == Value::Kind::text ? value.text() : to_toml(value));
    }
    std::error_code ignored;
    record.tags = {{"mlflow.source.name", e.file}, {"millrace.folder", std::filesystem::absolute(e.folder, ignored).string()}};
    record.uri = uri_;
    record.access = access();
    sender_.emplace(std::move(record),
                    [this](const std::string& text) { control_->warn(fmt::format("observer 'mlflow': {}", text)); });
  }

  void step(const StepEvent& e) override {
    Metrics metrics(*this, e.step, e.elapsed_seconds);
    metrics.add(e.graph + "/", e.figures);
    for (const auto& [name, value] : e.scalars) metrics.add(name, value);
    if (e.reported) metrics.add("images_per_second", e.images_per_second);
  }
  void epoch(const EpochEvent& e) override { Metrics(*this, e.step, e.elapsed_seconds).add(e.graph + "/epoch_", e.figures); }
  void pass(const PassEvent& e) override {
    if (e.best_step == 0) return Metrics(*this, e.step, e.elapsed_seconds).add(e.graph + "/", e.figures);
    Metrics(*this, e.best_step, e.elapsed_seconds).add(e.graph + "/best_", e.figures);
  }

  // A checkpoint's values are then at the server, even if the process is killed.
  void sync() override {
    if (sender_) sender_->sync();
  }

  void end(const RunEnd& e) override {
    if (!sender_) return;
    const Sender::Missing missing = sender_->finish(!e.error.empty() ? "FAILED" : e.stopped ? "KILLED" : "FINISHED");
    if (missing.metrics == 0 && !missing.end) return;
    control_->warn(fmt::format("observer 'mlflow': '{}' lacks {} metrics{}", uri_, missing.metrics,
                               missing.end ? " and the end of the run" : ""));
  }

 private:
  // Collects the values of one step and passes them to the sender.
  class Metrics {
   public:
    Metrics(MlflowObserver& observer, std::uint64_t step, double elapsed_seconds)
        : observer_(observer), step_(step), at_(observer.begin_ + static_cast<std::int64_t>(1000 * elapsed_seconds)) {}
    ~Metrics() {
      if (observer_.sender_) observer_.sender_->add(std::move(all_));
    }
    Metrics(const Metrics&) = delete;
    Metrics& operator=(const Metrics&) = delete;
    void add(const std::string& name, double value) { all_.push_back({key_of(name), value, at_, step_}); }
    void add(const std::string& prefix, const std::vector<Figure>& figures) {
      for (const Figure& figure : figures) add(prefix + figure.name, figure.value);
    }

   private:
    MlflowObserver& observer_;
    const std::uint64_t step_;
    const std::int64_t at_;
    std::vector<Metric> all_;
  };

  const Params params_;
  std::string uri_;
  std::int64_t begin_ = 0;  // the run's begin, in milliseconds since 1970
  RunControl* control_ = nullptr;
  std::optional<Sender> sender_;
};

MILLRACE_PLUGIN("observer_mlflow", "1.0", "Records runs at an MLflow server.") { registry.add_observer<MlflowObserver>(); }

}  // namespace

}  // namespace millrace::mlflow

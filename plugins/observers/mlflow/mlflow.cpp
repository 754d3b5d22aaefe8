// Records a run in MLflow.
#include <fmt/format.h>
#include <web/environment.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <optional>
#include <stop_token>
#include <thread>

#include "client.h"
#include "millrace/observer.h"
#include "millrace/plugin.h"
#include "millrace/util/output_file.h"
#include "millrace/util/retold.h"
#include "millrace/util/run_settings.h"

namespace millrace::mlflow {
namespace {

constexpr auto kPeriod = std::chrono::seconds(1);          // between two requests
constexpr auto kPause = std::chrono::seconds(10);          // after a failed request
constexpr auto kSyncPatience = std::chrono::seconds(1);    // the longest wait of a checkpoint
constexpr auto kEndPatience = std::chrono::seconds(10);    // the longest wait at the end of a run, plus about a second
constexpr std::size_t kMostWaiting = 200'000;              // metrics
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
    for (; waiting_.size() > kMostWaiting; ++lost_) waiting_.pop_front();
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
          warn_(fmt::format("{}; the run goes on, and metrics wait", error.what()));
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
    if (!told_params_) {
      client_.log_params(identifier_, record_.params);
      told_params_ = true;
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
    for (; !waiting_.empty() && batch.size() < Client::kMostMetrics; waiting_.pop_front()) {
      const auto told = told_steps_.find(waiting_.front().key);
      if (told == told_steps_.end() || waiting_.front().step > told->second) batch.push_back(std::move(waiting_.front()));
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
      if (const auto step = step_today(newest, *record_.resumed)) told_steps_[key] = *step;
    }
    client_.reopen_run(before);
    identifier_ = before;
    is_kept_ = told_params_ = true;  // parameters cannot be changed there
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
      warn_(fmt::format("{}; it is tried again, and until then a resumed run would begin another one at MLflow", error.what()));
    }
  }

  // Used only by the thread.
  const RunRecord record_;
  Client client_;
  const std::function<void(const std::string& text)> warn_;
  std::string identifier_;                           // the run's id at MLflow; empty if it has not begun there
  std::map<std::string, std::uint64_t> told_steps_;  // by metric: the newest valid one (step_today)
  bool is_kept_ = false;                             // the identifier is stored for a resumed run
  bool told_params_ = false, warned_ = false, warned_of_file_ = false;
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
           "uri: a file is no place for a password: set MLFLOW_TRACKING_TOKEN, or MLFLOW_TRACKING_USERNAME and _PASSWORD");
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

// Observer "page": a run as a live page and a kept one.
#include <fmt/format.h>

#include <atomic>
#include <charconv>
#include <chrono>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "address.h"
#include "document.h"
#include "json.h"
#include "millrace/error.h"
#include "millrace/observer.h"
#include "millrace/plugin.h"
#include "millrace/util/output_file.h"
#include "millrace/util/standard_error.h"
#include "pictures.h"
#include "server.h"
#include "story.h"

namespace millrace::page {
namespace {

constexpr auto kUpdatePeriod = std::chrono::seconds(5);   // for pictures in the run's folder
constexpr auto kReportPeriod = std::chrono::seconds(30);  // for report.html, in addition to the ends of epochs
constexpr auto kStuck = std::chrono::minutes(5);          // without a step, a pass or a packet
constexpr double kLeastFactor = 1e-3, kMaxFactor = 1e3;  // a run's limits (RunControl::rate_factor())
constexpr std::size_t kMaxPictureBytes = std::size_t{4} << 20, kMaxReportBytes = std::size_t{24} << 20;
constexpr const char* kReport = "report.html";

// A page's request to the run. Returns false if it does not exist or the body is invalid.
bool ask(RunControl& control, std::string_view what, std::string_view body) {
  if (what == "rate_factor") {
    double factor = 0;
    const auto [end, error] = std::from_chars(body.data(), body.data() + body.size(), factor);
    if (error != std::errc() || end != body.data() + body.size() || !(factor >= kLeastFactor && factor <= kMaxFactor)) {
      return false;
    }
    control.rate_factor(factor);
    return true;
  }
  if (!body.empty()) return false;
  if (what == "stop") return control.stop(), true;
  if (what == "validate") return control.validate(), true;
  if (what == "save") return control.save(), true;
  if (what == "checkpoint") return control.checkpoint(), true;
  return false;
}

// Two threads: the observer's adds to the story and writes report.html; the server's reads the story.
class SharedStory {
 public:
  template <class F>
  auto with(const F& f) {
    const std::lock_guard lock(mutex_);
    return f(story_);
  }

 private:
  std::mutex mutex_;
  Story story_;  // guarded by mutex_
};

class PageObserver final : public RunObserver {
 public:
  struct Params {
    std::string address = "127.0.0.1:0";
    std::vector<std::string> hosts;
    bool report = true;
  };
  static void describe(ObserverDescription<Params>& d) {
    d.name("page")
        .text("Shows the run live in a browser, and saves the page as report.html in the run's folder.")
        .delivery(Delivery::latest);
    d.params.add("address", &Params::address).text("ADDRESS:PORT to listen on; port 0: any free one; \"\": report.html only");
    d.params.add("hosts", &Params::hosts).text("further host names accepted from browsers, in addition to this machine's");
    d.params.add("report", &Params::report).text("write report.html, at the end and occasionally before");
  }
  explicit PageObserver(const Params& params) : params_(params) {
    if (!params.address.empty()) read_address("address", params.address);
  }
  // All observers have ended by now; others draw at the end too.
  ~PageObserver() override {
    try {
      if (has_ended_ && update_pictures()) write_report();
    } catch (...) {  // the report of end() stays
    }
  }
  PageObserver(const PageObserver&) = delete;
  PageObserver& operator=(const PageObserver&) = delete;

  void start(const RunStart& e, RunControl& control) override {
    control_ = &control;
    folder_ = e.folder;
    story_.with([&](Story& story) {
      story.begin(e);
      if (e.resumed) story.recall(e.folder / "metrics.jsonl", resumed_at(e));
    });
    if (!params_.address.empty()) serve(e, control);
  }
  void step(const StepEvent& e) override { add_movement(e); }
  void epoch(const EpochEvent& e) override {
    add_movement(e);
    write_report();
  }
  void pass(const PassEvent& e) override {
    add_movement(e);
    update_pictures();
  }
  void checkpoint(const CheckpointEvent& e) override { add_movement(e); }
  void bad_sample(const BadSampleEvent& e) override { add(e); }
  void warning(const WarningEvent& e) override { add(e); }
  void request(const RequestEvent& e) override { add(e); }
  void tick(const TickEvent& e) override {
    add(e);
    const auto now = Clock::now();
    if (now - updated_ >= kUpdatePeriod) update_pictures();
    if (now - written_ >= kReportPeriod) write_report();
  }
  void telemetry(const TelemetryEvent& e) override {
    add(e);
    std::uint64_t packets = 0;
    for (const StageTelemetry& stage : e.stages) packets += stage.packets;
    if (std::exchange(packets_, packets) != packets) moved_ = Clock::now();
  }
  void end(const RunEnd& e) override {
    has_failed_ = !e.error.empty();
    story_.with([&](Story& story) { story.end(e); });
    update_pictures();
    write_report();
    if (server_) server_->close();
    has_ended_ = true;
  }

 private:
  using Clock = std::chrono::steady_clock;

  template <class Event>
  void add(const Event& event) {
    story_.with([&](Story& story) { story.add(event); });
  }

  template <class Event>
  void add_movement(const Event& event) {
    moved_ = Clock::now();
    add(event);
  }

  std::string trouble() const {
    if (has_failed_) return "failed";
    return Clock::now() - moved_.load() >= kStuck ? "stuck" : "";
  }

  // If another program has the port, only the page is missing, not the report.
  void serve(const RunStart& e, RunControl& control) {
    Server::Source source;
    source.snapshot = [this] { return story_.with([](const Story& story) { return story.snapshot(); }); };
    source.metrics = [this] { return story_.with([](const Story& story) { return story.metrics(); }); };
    source.pictures = [this] { return story_.with([](const Story& story) { return story.pictures(); }); };
    source.changes = [this] { return story_.with([](Story& story) { return story.changes(); }); };
    source.trouble = [this] { return trouble(); };
    source.ask = [&control](std::string_view what, std::string_view body) { return ask(control, what, body); };
    source.warn = [&control](std::string_view message) { control.warn(message); };
    source.folder = e.folder;
    try {
      server_ = std::make_unique<Server>(Server::Setting{params_.address, params_.hosts}, std::move(source));
      print_to_stderr("page: {}\n", server_->url());
    } catch (const Error& error) {
      control.warn(
          fmt::format("the page is not served{}: {}", params_.report ? ", and report.html is written" : "", error.what()));
    }
  }

  bool update_pictures() {  // true if there are new ones
    updated_ = Clock::now();
    if (folder_.empty()) return false;
    std::vector<Picture> pictures = pictures_in(folder_);
    return story_.with([&](Story& story) { return story.show(std::move(pictures)); });
  }

  // A failing disk ends nothing: one warning, then further attempts.
  void write_report() {
    written_ = Clock::now();
    if (folder_.empty() || !params_.report) return;
    try {
      JsonObject pictures;
      std::size_t bytes = 0;
      for (const Picture& picture : story_.with([](const Story& story) { return story.pictures(); })) {
        const std::string url = data_url(folder_, picture, kMaxPictureBytes);
        if (url.empty() || (bytes += url.size()) > kMaxReportBytes) continue;
        pictures.add(picture.name, url);
      }
      OutputFile file((folder_ / kReport).string(), OutputFile::Sync::later);
      file.write(kept_document(story_.with([](const Story& story) { return story.snapshot(); }), pictures.text()));
      file.commit();
    } catch (const Error& error) {
      if (!has_ended_) control_->warn(fmt::format("cannot save the page of the run: {}", error.what()));
    }
  }

  const Params params_;
  RunControl* control_ = nullptr;
  std::filesystem::path folder_;
  SharedStory story_;
  Clock::time_point updated_ = Clock::now(), written_ = Clock::now();
  bool has_ended_ = false;
  std::uint64_t packets_ = 0;  // processed by stages
  std::atomic<bool> has_failed_{false};
  std::atomic<Clock::time_point> moved_{Clock::now()};  // time of the last observed progress
  std::unique_ptr<Server> server_;                      // last: it reads the story
};

}  // namespace
}  // namespace millrace::page

MILLRACE_PLUGIN("observer_page", "1.0", "Shows a run in a browser, and saves the page.") {
  registry.add_observer<millrace::page::PageObserver>();
}

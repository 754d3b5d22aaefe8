// Event files for TensorBoard.
#include <event.pb.h>
#include <fmt/format.h>

#include <chrono>
#include <optional>

#include "event_file.h"
#include "histograms.h"
#include "millrace/observer.h"
#include "millrace/plugin.h"
#include "millrace/util/run_settings.h"
#include "millrace/util/text.h"
#include "pictures.h"

namespace millrace::tensorboard {
namespace {

double seconds_since_1970() { return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count(); }

// A value for one of TensorBoard's plugins that no step changes. `content`: read by the plugin.
Summary::Value& add_value(Event& event, const std::string& tag, const std::string& plugin, const std::string& content = {}) {
  Summary::Value& value = *event.mutable_summary()->add_value();
  value.set_tag(tag);
  value.mutable_metadata()->mutable_plugin_data()->set_plugin_name(plugin);
  value.mutable_metadata()->mutable_plugin_data()->set_content(content);
  return value;
}

// TensorBoard follows links: below the runs' folder it would find the newest run twice, through `latest`. A run of an earlier
// version continues where its events are.
std::filesystem::path events_of(const std::filesystem::path& run) {
  if (EventFile::is_there(run)) return run;
  std::filesystem::path folder = run.parent_path() / "tensorboard" / run.filename();
  std::error_code told;  // depends on who creates the file
  std::filesystem::create_directories(folder, told);
  return folder;
}

Hyperparameters::Setting setting_of(const Value& value) {
  Hyperparameters::Setting setting;
  switch (value.kind()) {
    case Value::Kind::boolean: setting.set_boolean(value.boolean()); break;
    case Value::Kind::integer:
    case Value::Kind::real: setting.set_number(value.number()); break;
    default: setting.set_text(utf8_text(value.text()));
  }
  return setting;
}

// Scalars are named GRAPH/METRIC, as "train/loss", and GRAPH/epoch_METRIC for means over an epoch. A resumed run writes another
// file, which begins with the step from which it supersedes older files.
class TensorboardObserver final : public RunObserver {
 public:
  struct Params {
    bool histograms = false;
    bool images = false;
  };
  static void describe(ObserverDescription<Params>& d) {
    d.name("tensorboard")
        .text(
            "Writes a TensorBoard event file next to the run's folder, into NAME/tensorboard/TIME: scalars of training and "
            "validation, and the pipeline as hyperparameters and text.");
    d.params.add("images", &Params::images)
        .text("also the pictures in the run's folder, such as the first batches, at each epoch that changed them");
    d.params.add("histograms", &Params::histograms)
        .text(
            "also histograms of weights, optimizer state and gradients (from the stage write_gradients), at each checkpoint on "
            "this machine");
  }
  explicit TensorboardObserver(const Params& params) : params_(params) {}

  void start(const RunStart& e, RunControl& control) override {
    if (e.folder.empty()) return;
    folder_ = e.folder;
    const std::filesystem::path events = events_of(folder_);
    const bool goes_on = e.resumed && EventFile::is_there(events);
    const double now = seconds_since_1970();
    begin_ = now - e.elapsed_seconds;
    file_.emplace(events, static_cast<std::int64_t>(now), [&control](const std::string& text) { control.warn(text); });
    Event version = event_at(0, e.elapsed_seconds);
    version.set_file_version("brain.Event:2");
    write(version);
    Event session = event_at(e.resumed ? e.checkpoint_step + 1 : 0, e.elapsed_seconds);
    session.mutable_session_log()->set_status(SessionLog::START);
    write(session);
    if (!goes_on) write_settings(e);
    file_->flush();
  }

  void step(const StepEvent& e) override {
    Event event = event_at(e.step, e.elapsed_seconds);
    add_figures(event, e.graph + "/", e.figures);
    for (const auto& [name, value] : e.scalars) add(event, name, value);
    if (e.reported) add(event, "images_per_second", e.images_per_second);
    write(event);
  }

  void epoch(const EpochEvent& e) override {
    Event event = event_at(e.step, e.elapsed_seconds);
    add_figures(event, e.graph + "/epoch_", e.figures);
    add(event, e.graph + "/epoch_images_per_second", e.images_per_second);
    add(event, "resident_bytes", static_cast<double>(e.resident_bytes));
    write(event);
    write_pictures(e.step, e.elapsed_seconds);
  }

  void pass(const PassEvent& e) override {
    Event event = event_at(e.best_step == 0 ? e.step : e.best_step, e.elapsed_seconds);
    add_figures(event, e.graph + (e.best_step == 0 ? "/" : "/best_"), e.figures);
    if (e.best_step == 0) add(event, e.graph + "/images_per_second", e.images_per_second);
    write(event);
  }

  // Reads the checkpoint back while training continues. It may have been removed by then, in favour of newer ones.
  void checkpoint(const CheckpointEvent& e) override {
    std::error_code ignored;
    if (!params_.histograms || !std::filesystem::is_directory(e.path, ignored)) return;
    Event event = event_at(e.step, e.elapsed_seconds);
    try {
      add_histograms(e.path, folder_ / "gradients.safetensors", *event.mutable_summary());
    } catch (const Error&) {
      return;
    }
    write(event);
  }

  void flush() override {
    if (file_) file_->flush();
  }
  void sync() override {
    if (file_) file_->sync();
  }

  // A stopped or failed run may be resumed, and TensorBoard uses the first end that it reads.
  void end(const RunEnd& e) override {
    if (!file_) return;
    write_pictures(e.step, e.elapsed_seconds);  // those of the last validation
    if (e.error.empty() && !e.stopped) {
      Hyperparameters data;
      data.mutable_end()->set_status(Hyperparameters::End::SUCCESS);
      data.mutable_end()->set_time(begin_ + e.elapsed_seconds);
      write_hyperparameters("_hparams_/session_end_info", data, e.elapsed_seconds);
    }
    file_->finish();
  }

 private:
  Event event_at(std::uint64_t step, double elapsed_seconds) const {
    Event event;
    event.set_wall_time(begin_ + elapsed_seconds);
    event.set_step(static_cast<std::int64_t>(step));
    return event;
  }

  static void add(Event& event, const std::string& tag, double value) {
    Summary::Value& added = *event.mutable_summary()->add_value();
    added.set_tag(utf8_text(tag));
    added.set_simple_value(static_cast<float>(value));
  }
  static void add_figures(Event& event, const std::string& prefix, const std::vector<Figure>& figures) {
    for (const Figure& figure : figures) add(event, prefix + figure.name, figure.value);
  }

  void write_settings(const RunStart& e) {
    Hyperparameters data;
    std::string lines;
    for (const auto& [key, value] : run_settings(e)) {
      (*data.mutable_start()->mutable_settings())[utf8_text(key)] = setting_of(value);
      lines += fmt::format("{} = {}\n", key, to_toml(value));
    }
    data.mutable_start()->set_time(begin_ + e.elapsed_seconds);
    write_hyperparameters("_hparams_/session_start_info", data, e.elapsed_seconds);

    Event event = event_at(0, e.elapsed_seconds);
    Tensor& text = *add_value(event, "pipeline", "text").mutable_tensor();
    text.set_type(Tensor::STRING);
    text.mutable_shape()->add_dimension()->set_size(1);
    text.add_text(utf8_text("```toml\n" + lines + "```"));
    write(event);
  }

  void write_pictures(std::uint64_t step, double elapsed_seconds) {
    if (!params_.images || !file_) return;
    Event event = event_at(step, elapsed_seconds);
    pictures_.add_changed(folder_, *event.mutable_summary());
    if (event.summary().value_size() > 0) write(event);
  }

  void write_hyperparameters(const std::string& tag, const Hyperparameters& data, double elapsed_seconds) {
    Event event = event_at(0, elapsed_seconds);
    Tensor& none = *add_value(event, tag, "hparams", data.SerializeAsString()).mutable_tensor();
    none.set_type(Tensor::FLOAT);
    none.mutable_shape()->add_dimension();  // with size 0
    write(event);
  }

  void write(const Event& event) {
    if (file_) file_->write(event.SerializeAsString());
  }

  const Params params_;
  std::optional<EventFile> file_;  // empty if the run has no folder
  std::filesystem::path folder_;   // the run's folder
  Pictures pictures_;
  double begin_ = 0;  // the run's begin, in seconds since 1970
};

MILLRACE_PLUGIN("observer_tensorboard", "1.0", "Event files for TensorBoard.") { registry.add_observer<TensorboardObserver>(); }

}  // namespace
}  // namespace millrace::tensorboard

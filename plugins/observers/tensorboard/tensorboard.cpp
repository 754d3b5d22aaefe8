// Event files for TensorBoard.
#include <event.pb.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <system_error>

#include "event_file.h"
#include "millrace/observer.h"
#include "millrace/plugin.h"
#include "millrace/util/run_settings.h"
#include "millrace/util/tensor_values.h"
#include "millrace/util/text.h"

namespace millrace::tensorboard {

namespace fs = std::filesystem;

namespace {

// Finds new or changed PNG files in the folder and its subfolders, ignoring checkpoints and links. Not thread-safe.
class Pictures {
 public:
  // Adds each as an image, "first_batches" or "FOLDER/NAME". Skips unreadable files and those above kMaxBytes, and results.png:
  // TensorBoard draws the run's course itself.
  void add_changed(const std::filesystem::path& folder, Summary& summary);

  static constexpr std::uintmax_t kMaxBytes = std::uintmax_t{8} << 20;

 private:
  std::map<std::string, std::filesystem::file_time_type> seen_;
};

// Four bytes, big-endian.
std::int32_t number_at(std::string_view bytes, std::size_t at) {
  std::uint32_t number = 0;
  for (std::size_t i = 0; i < 4; ++i) number = number << 8U | static_cast<unsigned char>(bytes[at + i]);
  return static_cast<std::int32_t>(number);
}

// Reads a PNG file's signature and its first chunk, IHDR (PNG specification, 5.2 and 11.2.2).
std::optional<Summary::Image> image_of(const fs::path& path) {
  constexpr std::string_view kSignature = "\x89PNG\r\n\x1a\n";
  constexpr std::size_t kHeader = 33;
  std::ifstream file(path, std::ios::binary);
  std::string bytes{std::istreambuf_iterator<char>(file), {}};
  if (!file || bytes.size() < kHeader || !bytes.starts_with(kSignature)) return std::nullopt;
  Summary::Image image;
  image.set_width(number_at(bytes, 16));
  image.set_height(number_at(bytes, 20));
  image.set_channels(3);
  image.set_png(std::move(bytes));
  return image;
}

void Pictures::add_changed(const fs::path& folder, Summary& summary) {
  std::set<fs::path> files;  // sorted by name
  std::error_code error;
  for (fs::recursive_directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    std::error_code ignored;
    if (entry->is_directory(ignored) && (entry.depth() > 0 || entry->path().filename() == "checkpoints")) {
      entry.disable_recursion_pending();
    }
    const bool is_picture = entry->path().extension() == ".png" && entry->path().filename() != "results.png";
    if (is_picture && entry->symlink_status(ignored).type() == fs::file_type::regular) files.insert(entry->path());
  }
  for (const fs::path& path : files) {
    std::error_code gone;
    const auto written = fs::last_write_time(path, gone);
    const std::string name = path.lexically_relative(folder).replace_extension().generic_string();
    if (gone || fs::file_size(path, gone) > kMaxBytes || gone) continue;
    const auto found = seen_.find(name);
    if (found != seen_.end() && found->second == written) continue;
    std::optional<Summary::Image> image = image_of(path);
    if (!image) continue;
    seen_[name] = written;
    Summary::Value& value = *summary.add_value();
    value.set_tag(utf8_text(name));
    *value.mutable_image() = std::move(*image);
  }
}

constexpr int kBuckets = 64;

double root_mean_square(const Histogram& histogram) { return std::sqrt(histogram.sum_of_squares() / histogram.count()); }

// A name in a checkpoint: "fc.weight/momentum"; per replica "bn1.running_mean/value/0".
struct StateName {
  std::string parameter, state, replica;
  explicit StateName(const std::string& name) {
    const std::size_t first = name.find('/'), second = first == name.npos ? name.npos : name.find('/', first + 1);
    parameter = name.substr(0, first);
    if (first != name.npos) state = name.substr(first + 1, second - first - 1);
    if (second != name.npos) replica = name.substr(second + 1);
  }
  bool is_shown() const { return replica.empty() || replica == "0"; }
};

// Covers the finite values; empty if there are none.
std::optional<Histogram> histogram_of(std::span<const float> values) {
  Histogram histogram;
  double least = INFINITY, most = -INFINITY, count = 0, sum = 0, squares = 0;
  for (const float value : values) {
    if (!std::isfinite(value)) continue;
    const double each = value;
    least = std::min(least, each);
    most = std::max(most, each);
    sum += each;
    squares += each * each;
    ++count;
  }
  if (count == 0) return std::nullopt;
  histogram.set_minimum(least);
  histogram.set_maximum(most);
  histogram.set_count(count);
  histogram.set_sum(sum);
  histogram.set_sum_of_squares(squares);
  const int buckets = most > least ? kBuckets : 1;
  const double width = (most - least) / buckets;
  std::vector<double> counts(static_cast<std::size_t>(buckets), 0);
  for (const float value : values) {
    if (!std::isfinite(value)) continue;
    const int bucket = width > 0 ? static_cast<int>((value - least) / width) : 0;
    ++counts[static_cast<std::size_t>(std::min(bucket, buckets - 1))];
  }
  for (int i = 0; i < buckets; ++i) {
    histogram.add_limit(i + 1 == buckets ? most : least + width * (i + 1));
    histogram.add_bucket(counts[static_cast<std::size_t>(i)]);
  }
  return histogram;
}

// For each parameter its values, "weights/fc.weight", and its optimizer state, "momentum/fc.weight"; then the ratio of their root
// mean squares, "momentum_to_weights/fc.weight". The same for "gradient/fc.weight" if `gradients` is a file of the stage
// write_gradients. Throws Error(data) if the checkpoint is missing or not a folder on this machine.
void add_histograms(const std::filesystem::path& checkpoint, const std::filesystem::path& gradients, Summary& summary) {
  std::map<std::string, double> sizes;  // root mean squares of weights, by parameter
  const auto add = [&](const std::string& name, std::span<const float> values) {
    const StateName of(name);
    const std::optional<Histogram> histogram = of.is_shown() ? histogram_of(values) : std::nullopt;
    if (!histogram) return;
    const bool is_weights = of.state == "value";
    Summary::Value& value = *summary.add_value();
    value.set_tag(utf8_text((is_weights ? "weights/" : of.state + "/") + of.parameter));
    *value.mutable_histogram() = *histogram;
    if (is_weights) {
      sizes[of.parameter] = root_mean_square(*histogram);
    } else if (const auto weights = sizes.find(of.parameter); weights != sizes.end() && weights->second > 0) {
      Summary::Value& ratio = *summary.add_value();
      ratio.set_tag(utf8_text(of.state + "_to_weights/" + of.parameter));
      ratio.set_simple_value(static_cast<float>(root_mean_square(*histogram) / weights->second));
    }
  };
  for_each_tensor((checkpoint / "state.safetensors").string(), add);
  std::error_code ignored;
  if (std::filesystem::exists(gradients, ignored)) for_each_tensor(gradients.string(), add);
}

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
  std::error_code ignored;  // depends on who creates the file
  std::filesystem::create_directories(folder, ignored);
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

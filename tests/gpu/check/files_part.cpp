// Parts 4 and 5: whole runs from JPEG files.
#include <fmt/format.h>

#include <atomic>
#include <fstream>
#include <thread>

#include "check.h"
#include "millrace/error.h"
#include "time_to_accuracy.h"

namespace millrace::gpu {
namespace {

namespace fs = std::filesystem;

constexpr int kDrawn = 640;  // images that are drawn ...
constexpr int kLinks = 20;   // ... and how often each lies in the folder: decoding costs the same again each time
constexpr const char* kSize = "400";
constexpr int kEpochs = 3;
constexpr int kRuns = 3;

// Samples the device's load while it lives: the share of time in which no kernel ran, as the driver counts it.
class LoadWatch {
 public:
  explicit LoadWatch(const Setting& setting) {
    if (!find_program("nvidia-smi")) return;
    child_ = std::make_unique<Child>(Command{.words = {"nvidia-smi", "--id=" + device_id(setting), "--query-gpu=utilization.gpu",
                                                       "--format=csv,noheader,nounits", "--loop-ms=200"},
                                             .environment = {},
                                             .log = {},
                                             .of_machine = true});
    reader_ = std::thread([this] { read(); });
  }
  ~LoadWatch() { stop(); }

  void begin() { counting_ = true; }
  void end() { counting_ = false; }
  // Nothing where the driver does not say.
  std::optional<double> idle() {
    stop();
    if (samples_ == 0) return std::nullopt;
    return 1 - sum_ / (100.0 * samples_);
  }

 private:
  void read() {
    while (!stop_) {
      const auto line = child_->read_line(0.5);
      if (!line && !child_->timed_out()) return;
      if (!line || !counting_ || line->find_first_of("0123456789") == std::string::npos) continue;
      sum_ += std::atof(line->c_str());
      ++samples_;
    }
  }
  void stop() {
    stop_ = true;
    if (reader_.joinable()) reader_.join();
    child_.reset();
  }

  std::unique_ptr<Child> child_;
  std::thread reader_;
  std::atomic<bool> counting_{false}, stop_{false};
  double sum_ = 0;
  int samples_ = 0;
};

std::map<std::string, std::string> environment(const Setting& setting) {
  return {{"MILLRACE_PIPELINES", setting.pipelines.string()}};
}

// Draws a few hundred photographs' worth of JPEG and links each into the folder many times.
bool make_photographs(const Setting& setting, const fs::path& folder, double limit) {
  if (fs::exists(folder / ".complete")) return true;
  fs::remove_all(folder);
  const int count = setting.trial() ? 20 : kDrawn;
  const Finished drawn = run({.words = {(setting.programs / "pipeline-data").string(), "shapes", (folder / "drawn").string(),
                                        "--size", kSize, "--count", std::to_string(count), "--validation", "10"},
                              .environment = environment(setting),
                              .log = setting.log("shapes")},
                             limit);
  if (drawn.status != 0) return false;
  std::vector<fs::path> files;
  for (const auto& entry : fs::recursive_directory_iterator(folder / "drawn/train")) {
    if (entry.is_regular_file()) files.push_back(entry.path());
  }
  for (const fs::path& file : files) {
    const fs::path place = folder / "train" / file.parent_path().filename();
    fs::create_directories(place);
    for (int i = 0; i < kLinks; ++i) fs::create_hard_link(file, place / fmt::format("{}_{}.jpg", file.stem().string(), i));
  }
  std::ofstream(folder / ".complete") << "\n";
  return true;
}

// A run's events; `seen` is told each of them as it comes.
struct Run {
  std::vector<Json> epochs;
  Json final_validation;
  int status = 0;
  std::string trouble;
};

template <class Seen>
Run run_pipeline(const Setting& setting, std::vector<std::string> words, const std::string& name, double limit, const Seen& seen,
                 const std::map<std::string, std::string>& more_environment = {}) {
  words.insert(words.begin(), (setting.programs / "pipeline-run").string());
  words.insert(words.end(), {"--devices", setting.backend + ":0", "--json", "--quiet"});  // as many as the peers use
  const Budget budget(limit);
  Run result;
  std::map<std::string, std::string> variables = environment(setting);
  variables.insert(more_environment.begin(), more_environment.end());
  Child child({.words = words, .environment = variables, .log = setting.log(name)});
  while (auto line = child.read_line(budget.left())) {
    const Json event = Json::parse(*line, nullptr, false);
    if (!event.is_object()) continue;
    const std::string kind = event.value("event", "");
    if (kind == "epoch") result.epochs.push_back(event);
    if (kind == "validate") result.final_validation = event;
    seen(event);
  }
  if (child.timed_out()) {
    result.trouble = "did not end in time";
    result.status = 124;
    return result;
  }
  result.status = child.wait();
  if (result.status != 0) result.trouble = fmt::format("status {}: {}", result.status, tail(setting.log(name)));
  return result;
}

Json trouble(Json part, const std::string& what, const Run& run) {
  part["outcome"] = run.status == 4 ? "skipped" : "failed";  // 4: the device
  part["why"] = run.trouble;
  row(what, part["outcome"], run.trouble);
  return part;
}

std::string set(const std::string& key, const std::string& value) { return "--set=" + key + "=" + value; }

// Twenty steps more, with every piece of work timed on the device: copies under compute, and where the device idles.
Json trace_part(const Setting& setting, std::vector<std::string> words, int batch, double limit) {
  const fs::path file = setting.out / "trace.json";
  words.insert(words.end(), {set("run.epochs", "1"), set("train.read.limit", std::to_string(20 * batch))});
  const Run run = run_pipeline(setting, words, "trace", limit, [](const Json&) {},
                               {{"MILLRACE_CUDA_TRACE", file.string()}, {"MILLRACE_CUDA_PROFILE", "1"}});
  if (!run.trouble.empty()) return {{"outcome", "failed"}, {"why", run.trouble}};
  row("trace", file.filename().string(),
      "for chrome://tracing and Perfetto; what it says: " + fs::path(setting.log("trace")).filename().string());
  return {{"outcome", "measured"}, {"file", file.filename().string()}, {"says", tail(setting.log("trace"))}};
}

}  // namespace

Json files_part(const Setting& setting) {
  const Budget budget(setting.limit);
  Json part = {{"what", fmt::format("ResNet-50 from JPEG files of {0}x{0} pixels", kSize)}};
  const fs::path photographs = setting.out / "photographs";
  if (!make_photographs(setting, photographs, 0.5 * budget.left())) {
    part["outcome"] = "failed";
    part["why"] = "no images: " + tail(setting.log("shapes"));
    row("images", "failed", part["why"]);
    return part;
  }
  std::vector<std::string> words = {(setting.own / "pipelines/resnet50_jpeg.toml").string(),
                                    set("data.root", photographs.string()), set("run.epochs", std::to_string(kEpochs))};
  if (setting.threads > 0) words.push_back(set("run.threads", std::to_string(setting.threads)));
  if (setting.trial())
    words.insert(words.end(), {set("run.precision", "fp32"), set("train.batch.size", "8"), set("train.read.limit", "16")});
  LoadWatch load(setting);
  std::vector<double> rates;
  const Run run = run_pipeline(setting, words, "resnet50_jpeg", budget.left(), [&](const Json& event) {
    if (event.value("event", "") != "epoch") return;
    // The first epoch makes plans and recordings and fills the page cache; the others count.
    const int epoch = event.value("epoch", 0);
    if (epoch > 1) rates.push_back(event.value("images_per_second", 0.0));
    if (epoch == 1) load.begin();
    if (epoch == kEpochs) load.end();
    for (const auto& [key, value] : event.items()) {
      if (key.find("idle") != std::string::npos) part[key] = value;
    }
  });
  if (!run.trouble.empty() || rates.empty()) return trouble(part, "ResNet-50 from JPEG files", run);
  part["batch"] = setting.trial() ? 8 : 256;
  part["precision"] = setting.trial() ? "fp32" : "bf16";
  part["images_per_second"] = rates;
  part["median_images_per_second"] = median(rates);
  part["processors"] = std::thread::hardware_concurrency();
  row("ResNet-50 from JPEG files", fmt::format("{:.1f} images/s", median(rates)),
      fmt::format("{} cores", std::thread::hardware_concurrency()));
  if (const auto idle = load.idle()) {
    part["device_idle_share"] = *idle;
    row("device idle", fmt::format("{:.1f} %", 100 * *idle), "by nvidia-smi, five times a second");
  } else {
    row("device idle", "unknown", "nvidia-smi does not say");
  }
  part["trace"] = trace_part(setting, words, part["batch"], budget.left());
  part["outcome"] = "measured";
  return part;
}

namespace {

double seconds_of(const Run& run) {
  double seconds = 0;
  for (const Json& epoch : run.epochs) seconds += epoch.value("seconds", 0.0);
  return seconds;
}

Json figures(const std::vector<double>& seconds, const std::vector<double>& accuracies) {
  return {{"median_seconds", median(seconds)},
          {"seconds", seconds},
          {"median_accuracy_tta", median(accuracies)},
          {"accuracy_tta", accuracies}};
}

void airbench_row(const std::string& name, const Json& summed) {
  row(name, fmt::format("{:.2f} s", summed["median_seconds"].get<double>()),
      fmt::format("to {:.2f} %  (medians)", 100 * summed["median_accuracy_tta"].get<double>()));
}

}  // namespace

Json airbench_part(const Setting& setting) {
  const Budget budget(setting.limit);
  Json part = {{"what", "airbench94 on CIFAR-10: seconds of training without whitening, accuracy with test-time augmentation"}};
  if (setting.data.empty() || !fs::exists(fs::path(setting.data) / "train")) {
    part["outcome"] = "skipped";
    part["why"] = "no data: give --data FOLDER or MILLRACE_DATA, a folder with train/<class>/*.jpg and test/<class>/*.jpg";
    row("airbench", "skipped", part["why"]);
    return part;
  }
  std::vector<std::string> words = {(setting.pipelines / "cifar10_airbench.toml").string(), set("data.root", setting.data),
                                    set("run.folder", ""), set("validate.every", "end")};
  std::vector<std::string> peer = {setting.python, (setting.own / "peers/airbench.py").string(), "--data", setting.data,
                                   "--serve"};
  if (setting.trial()) {  // two steps instead of 476
    words.insert(words.end(), {set("run.epochs", "0.03"), set("final.read.limit", "500"), set("validate.read.limit", "500")});
    peer.insert(peer.end(), {"--device", "cpu", "--no-compile", "--dtype", "fp32", "--epochs", "0.03", "--test", "500"});
  }
  part["data"] = setting.trial() ? "of backend " + setting.backend : "on the device (train.cache.device = true)";
  Partner pytorch({.words = peer, .environment = {}, .log = setting.log("torch_airbench"), .of_machine = true},
                  0.6 * budget.left());
  if (!pytorch.ready()) row("PyTorch", "skipped", pytorch.about().value("error", ""));
  std::vector<double> ours, our_accuracy, theirs, their_accuracy;
  for (int i = 1; i <= kRuns && budget.left() > 0; ++i) {
    std::vector<std::string> seeded = words;
    seeded.push_back(set("run.seed", std::to_string(i)));
    const Run run = run_pipeline(setting, seeded, "airbench", budget.left(), [](const Json&) {});
    if (!run.trouble.empty()) return trouble(part, "airbench, Millrace", run);
    ours.push_back(seconds_of(run));
    our_accuracy.push_back(run.final_validation.value("accuracy", 0.0));
    const Json answer = pytorch.ask(budget.left());
    if (!answer.contains("seconds")) continue;
    theirs.push_back(answer["seconds"]);
    their_accuracy.push_back(answer["accuracy_tta"]);
  }
  part["epochs"] = setting.trial() ? 0.03 : 9.9;
  part["millrace"] = figures(ours, our_accuracy);
  airbench_row("airbench, Millrace", part["millrace"]);
  if (!theirs.empty()) {
    part["pytorch"] = figures(theirs, their_accuracy);
    part["pytorch"]["about"] = pytorch.about();
    airbench_row("airbench, PyTorch", part["pytorch"]);
    part["wanted_accuracy"] = setting.accuracy;
    const std::string short_of =
        who_fell_short({median(ours), median(our_accuracy)}, {median(theirs), median(their_accuracy)}, setting.accuracy);
    if (short_of.empty()) {
      part["ratio"] = median(ours) / median(theirs);
      row("ratio of times", fmt::format("{:.3f}", part["ratio"].get<double>()), "wanted: at most 0.9");
    } else {
      part["no_ratio"] = short_of;
      row("ratio of times", "none", short_of);
    }
  }
  part["outcome"] = "measured";
  return part;
}

}  // namespace millrace::gpu

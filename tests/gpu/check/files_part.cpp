// Part "files": ResNet-50 from JPEG files, and a trace of some steps.
#include <fmt/format.h>

#include <atomic>
#include <optional>
#include <thread>

#include "pipeline_run.h"
#include "preparation.h"

namespace millrace::gpu {
namespace {

namespace fs = std::filesystem;

constexpr int kEpochs = 3;

// Samples the device's load while it lives: the share of time in which no kernel ran, as the driver counts it.
class LoadWatch {
 public:
  explicit LoadWatch(const std::string& device) {
    if (!find_program("nvidia-smi")) return;
    child_ = std::make_unique<Child>(Command{.words = {"nvidia-smi", "--id=" + device, "--query-gpu=utilization.gpu",
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

std::vector<std::string> command(const Setting& setting) {
  std::vector<std::string> words = {(setting.own / "pipelines/resnet50_jpeg.toml").string(),
                                    set("data.root", setting.photographs().string()), set("run.epochs", std::to_string(kEpochs))};
  for (const std::string& word : like_the_peers()) words.push_back(word);
  if (setting.threads > 0) words.push_back(set("run.threads", std::to_string(setting.threads)));
  if (setting.trial()) {
    words.insert(words.end(), {set("run.precision", "fp32"), set("train.batch.size", "8"), set("train.read.limit", "16"),
                               set("train.decode_image.size", "[32, 32]"),
                               set("network.use", (setting.pipelines / "networks/quickstart.toml").string())});
  }
  return words;
}

// Twenty steps more, with every piece of work timed on the device: copies under compute, and where the device idles.
Json trace(const PartContext& context, std::vector<std::string> words, int batch, double limit) {
  const Setting& setting = context.setting;
  const fs::path file = setting.state / "answers/trace.json";
  fs::create_directories(file.parent_path());
  words.insert(words.end(),
               {set("run.epochs", "1"), set("train.read.limit", std::to_string((setting.trial() ? 2 : 20) * batch))});
  const PipelineRun run =
      run_pipeline(setting, words, "trace", limit, {}, {{"MILLRACE_CUDA_TRACE", file.string()}, {"MILLRACE_CUDA_PROFILE", "1"}});
  if (!run.trouble.empty()) return {{"outcome", "failed"}, {"why", run.trouble}};
  context.report.row("trace", fs::exists(file) ? file.filename().string() : "none", "for Perfetto; what it says: logs/trace.log");
  return {{"outcome", "measured"}, {"file", file.filename().string()}, {"says", tail(setting.log("trace"))}};
}

void add_idle_time(const PartContext& context, LoadWatch& load, Json& part) {
  const auto idle = load.idle();
  if (idle) part["device_idle_share"] = *idle;
  context.report.row("device idle", idle ? fmt::format("{:.1f} %", 100 * *idle) : "unknown",
                     idle ? "by nvidia-smi, five times a second" : "nvidia-smi does not say");
}

}  // namespace

Json files_part(const PartContext& context) {
  const Budget budget(context.seconds);
  const Setting& setting = context.setting;
  if (!make_photographs(setting, 0.5 * budget.left()))
    return {{"outcome", "failed"}, {"why", "no images: " + tail(setting.log("shapes"))}};
  const std::vector<std::string> words = command(setting);
  const int batch = setting.trial() ? 8 : 256;
  Json part = {{"outcome", "measured"}, {"batch", batch}, {"precision", setting.trial() ? "fp32" : "bf16"}};
  LoadWatch load(device_id(context.machine));
  std::vector<double> rates;
  const PipelineRun run = run_pipeline(setting, words, "resnet50_jpeg", budget.left(), [&](const Json& event) {
    if (event.value("event", "") != "epoch") return;
    // The first epoch makes plans and recordings and fills the page cache; the others count.
    context.report.measured(event);
    const int epoch = event.value("epoch", 0);
    if (epoch > 1) rates.push_back(event.value("images_per_second", 0.0));
    if (epoch == 1) load.begin();
    if (epoch == kEpochs) load.end();
    for (const auto& [key, value] : event.items()) {
      if (key.find("idle") != std::string::npos) part[key] = value;
    }
  });
  if (rates.empty()) return failed_run(context.report, "ResNet-50 from JPEG files", run);
  if (!run.trouble.empty()) part["why"] = run.trouble;
  part["images_per_second"] = rates;
  part["median_images_per_second"] = median(rates);
  part["processors"] = std::thread::hardware_concurrency();
  context.report.row("ResNet-50 from JPEG files", fmt::format("{:.1f} images/s", median(rates)),
                     fmt::format("{} cores", std::thread::hardware_concurrency()));
  add_idle_time(context, load, part);
  part["trace"] = trace(context, words, batch, budget.left());
  return part;
}

}  // namespace millrace::gpu

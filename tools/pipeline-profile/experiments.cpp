#include "experiments.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <optional>

#include "autotune.h"
#include "forecast.h"
#include "millrace/error.h"
#include "millrace/util/output_file.h"
#include "pictures.h"
#include "scaling.h"
#include "values.h"
#include "what_if.h"

namespace millrace {
namespace {

namespace fs = std::filesystem;

constexpr double kTuningSeconds = 60;

// An option's output file, opened before a minute of work. "": none.
class AskedFile {
 public:
  AskedFile(const char* option, const std::string& path) {
    if (path.empty()) return;
    try {
      file_.emplace(path);
    } catch (Error& error) {
      throw error.in(option);
    }
  }
  void write(const std::string& text) {
    if (!file_) return;
    file_->write(text);
    file_->commit();
  }

 private:
  std::optional<OutputFile> file_;
};

// The file's name relative to the folder of `out`; names of base files are unchanged.
std::string as_extended(const std::string& file, const fs::path& out) {
  if (!fs::exists(file)) return file;
  return fs::relative(file, fs::absolute(out).parent_path()).string();
}

double positive(const char* option, const std::string& text) {
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  if (*end != '\0' || !(value > 0) || value > 3600) {
    fail(ErrorKind::usage, "{} must be a number of seconds above 0 and at most 3600, found '{}'", option, text);
  }
  return value;
}

double share(const char* option, const std::string& text) {
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  if (*end != '\0' || !(value > 0) || value > 1) {
    fail(ErrorKind::usage, "{} must be a share above 0 and at most 1, found '{}'", option, text);
  }
  return value;
}

// "1Gb/s,latency=50us". Default: ranks of one machine that communicate through sockets.
NetworkModel network_of(const std::string& text) {
  NetworkModel network{.bandwidth = 1e9, .latency = 50e-6, .exchanges_slices = true};
  for (const std::string_view part : split_list(text)) {
    const bool is_bandwidth = part.find('=') == std::string_view::npos;
    const auto [key, value] =
        is_bandwidth ? std::pair(std::string("network"), std::string(part)) : split_setting("--network", part);
    if (!set_network(network, "--network", key, value))
      fail(ErrorKind::usage, "--network: there is no '{}'; there is latency", key);
  }
  return network;
}

// The file with half of its batch; empty if that leaves a replica without images.
std::optional<ProfiledFile> half_of(const ProfiledFile& what, const RunFacts& facts) {
  if (facts.batch < 2 * static_cast<std::uint32_t>(std::max(facts.devices.replicas, 1))) return std::nullopt;
  ProfiledFile half = what;
  half.overrides.push_back(fmt::format("{}.{}.size={}", facts.graph, facts.stages.back().name, facts.batch / 2));
  return half;
}

}  // namespace

void Experiments::declare(Arguments& arguments) {
  arguments
      .repeated("--what-if", "CHANGES", "predict the rate with other settings, such as threads=4,device=2x,decode=1.5x,image=256",
                questions_)
      .flag("--suggest", "predict helpful changes, best first", suggests_)
      .option("--forecast", "SIZE", "predict training on many devices: devices=8,hosts=32,network=100Gb/s", forecast_)
      .option("--scaling", "N,N...", "run on this many devices, with the same and a larger batch", scaling_)
      .option("--over", "WHAT", "with --scaling: ranks, a process per device, or devices (devices)", over_)
      .option("--network", "NETWORK", "with --over ranks: network to predict for: 1Gb/s,latency=50us", network_)
      .option("--to-accuracy", "SHARE", "with --scaling: also train to this validation accuracy, such as 0.9", to_accuracy_)
      .flag("--autotune", "choose threads, chunks and buffers by a minute of short runs", tunes_)
      .option("--out", "FILE.toml", "with --autotune: write the choice as a file that extends FILE", out_)
      .option("--csv", "FILE", "with --forecast or --scaling: also write the table as CSV", csv_)
      .option("--seconds", "S", "with these options: minimum time per run (5); total time of --autotune (60)", seconds_);
}

bool Experiments::is_asked() const {
  const bool asked = !questions_.empty() || suggests_ || !forecast_.empty() || !scaling_.empty() || tunes_;
  if (!out_.empty() && !tunes_) fail(ErrorKind::usage, "--out belongs to --autotune");
  if (!csv_.empty() && forecast_.empty() && scaling_.empty()) fail(ErrorKind::usage, "--csv belongs to --forecast or --scaling");
  for (const auto& [name, value] : {std::pair("--over", &over_), {"--network", &network_}, {"--to-accuracy", &to_accuracy_}}) {
    if (!value->empty() && scaling_.empty()) fail(ErrorKind::usage, "{} belongs to --scaling", name);
  }
  if (!seconds_.empty() && !asked) fail(ErrorKind::usage, "--seconds belongs to --what-if and the other predictions");
  return asked;
}

void Experiments::run(const ProfiledFile& what, const Registry& registry, std::uint64_t steps, const std::string& pictures,
                      Leave leave) const {
  CalibrationOptions options{.steps = steps};
  if (!seconds_.empty()) options.seconds = positive("--seconds", seconds_);
  options.most_seconds = std::max(options.most_seconds, options.seconds);
  if (!questions_.empty() || suggests_) answer(what, registry, options);
  if (!forecast_.empty()) foretell(what, registry, options);
  if (!scaling_.empty()) scale(what, registry, options, pictures, leave);
  if (tunes_) tune(what, registry);
}

void Experiments::answer(const ProfiledFile& what, const Registry& registry, const CalibrationOptions& options) const {
  const RunFacts facts = facts_of(what, registry);
  std::vector<StepShare> shares;  // the requested ones
  bool divides = false;
  for (const std::string& text : questions_) {  // before the work: they may be wrong
    const Question question = parse_question(text, facts);
    if (question.changes.empty()) fail(ErrorKind::usage, "--what-if: say what changes, such as threads=4");
    divides = divides || divides_steps(question);
    if (const auto share = asked_share(question, facts)) shares.push_back(*share);
  }
  Calibration measured = calibrate(what, registry, options);
  DeviceFacts& devices = measured.facts.devices;
  devices.alone = calibrate_steps(what, registry, options, facts, shares);
  const auto half = half_of(what, facts);
  const bool all_are_known = devices.threads > 0 && std::ranges::all_of(shares, [&](const StepShare& share) {
                               return std::ranges::find(devices.alone, share, &StepsAlone::share) != devices.alone.end();
                             });
  if (divides && half && !all_are_known) devices.fixed_share = fixed_share_of(measured, calibrate(*half, registry, options));
  fmt::print("{}", what_if_text(measured, questions_, suggests_));
}

void Experiments::foretell(const ProfiledFile& what, const Registry& registry, CalibrationOptions options) const {
  const ForecastQuestion question = parse_forecast(forecast_);
  AskedFile csv("--csv", csv_);
  options.layers = true;
  const Calibration whole = calibrate(what, registry, options);
  std::optional<Calibration> smaller;
  if (const auto half = half_of(what, whole.facts)) smaller = calibrate(*half, registry, options);
  const ForecastStep step = forecast_step(whole, smaller ? &*smaller : nullptr);
  fmt::print("{}", forecast_text(step, question));
  csv.write(forecast_csv(step, question));
}

void Experiments::scale(const ProfiledFile& what, const Registry& registry, const CalibrationOptions& options,
                        const std::string& pictures, Leave leave) const {
  ScalingQuestion question{.replicas = parse_replicas(scaling_), .network = network_of(network_), .leave = leave};
  if (!over_.empty() && over_ != "ranks" && over_ != "devices") {
    fail(ErrorKind::usage, "--over = '{}': choose ranks or devices", over_);
  }
  question.over_ranks = over_ == "ranks";
  if (!network_.empty() && !question.over_ranks) fail(ErrorKind::usage, "--network belongs to --over ranks");
  if (!to_accuracy_.empty()) question.to_accuracy = share("--to-accuracy", to_accuracy_);
  AskedFile csv("--csv", csv_);
  const Scaling scaling = measure_scaling(what, registry, options, question);
  fmt::print("{}", scaling_text(scaling));
  csv.write(scaling_csv(scaling.points));
  const bool learned = !scaling.accuracies.empty();
  if (learned && !csv_.empty()) {
    const fs::path path(csv_);
    const fs::path beside = path.parent_path() / fmt::format("{}-accuracy{}", path.stem().string(), path.extension().string());
    AskedFile("--csv", beside.string()).write(accuracy_csv(scaling.accuracies));
  }
  if (pictures.empty()) return;
  const std::string title = fmt::format("{} on {} {}", fs::path(what.file).stem().string(), question.replicas.back(),
                                        question.over_ranks ? "ranks" : "replicas");
  write_picture(throughput_picture(scaling, title), pictures, "throughput");
  write_picture(step_picture(scaling, title), pictures, "step");
  if (learned) write_picture(accuracy_picture(scaling, title), pictures, "accuracy");
}

void Experiments::tune(const ProfiledFile& what, const Registry& registry) const {
  if (!out_.empty() && fs::path(out_).extension() != ".toml") {
    fail(ErrorKind::usage, "--out: '{}' does not end in .toml", out_);
  }
  if (!out_.empty() && fs::exists(out_)) fail(ErrorKind::usage, "--out: '{}' is there already: name another file", out_);
  AskedFile file("--out", out_);
  const Tuned tuned = autotune(what, registry, seconds_.empty() ? kTuningSeconds : positive("--seconds", seconds_));
  fmt::print("{}", autotune_text(tuned));
  if (out_.empty()) return;
  if (!tuned.has_compared())
    fail(ErrorKind::run, "--out: '{}' is not written, since nothing was tried: give more --seconds", out_);
  file.write(autotune_toml(tuned, as_extended(what.file, out_), what.overrides));
  fmt::print("written: {}\n", out_);
}

}  // namespace millrace

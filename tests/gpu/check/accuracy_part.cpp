// Part "accuracy": airbench on CIFAR-10, beside PyTorch, in turns.
#include <fmt/format.h>

#include "pipeline_run.h"
#include "preparation.h"
#include "time_to_accuracy.h"

namespace millrace::gpu {
namespace {

constexpr int kRuns = 3;

// Trainings of one program.
struct Trainings {
  std::vector<double> seconds, accuracies;

  void add(double seconds_of_one, double accuracy) {
    seconds.push_back(seconds_of_one);
    accuracies.push_back(accuracy);
  }
  TimeToAccuracy middle() const { return {median(seconds), median(accuracies)}; }
  Json summary(Report& report, const std::string& name) const {
    const auto [time, accuracy] = middle();
    report.row(name, fmt::format("{:.2f} s", time), fmt::format("to {:.2f} %  (medians of {})", 100 * accuracy, seconds.size()));
    return {{"median_seconds", time}, {"seconds", seconds}, {"median_accuracy_tta", accuracy}, {"accuracy_tta", accuracies}};
  }
};

double seconds_of(const PipelineRun& run) {
  double seconds = 0;
  for (const Json& epoch : run.epochs) seconds += epoch.value("seconds", 0.0);
  return seconds;
}

std::vector<std::string> our_words(const Setting& setting, const std::string& data) {
  std::vector<std::string> words = {(setting.pipelines / "cifar10_airbench.toml").string(), set("data.root", data),
                                    set("run.folder", ""), set("validate.every", "end")};
  for (const std::string& word : like_the_peers()) words.push_back(word);
  if (setting.trial()) {  // a few steps of a small batch instead of 476
    words.insert(words.end(), {set("run.epochs", "1"), set("train.batch.size", "16"), set("train.read.limit", "32"),
                               set("final.read.limit", "16"), set("validate.read.limit", "16")});
  }
  return words;
}

void compare(const PartContext& context, const Trainings& ours, const Trainings& theirs, Json& part) {
  part["wanted_accuracy"] = context.setting.accuracy;
  const std::string short_of = who_fell_short(ours.middle(), theirs.middle(), context.setting.accuracy);
  if (short_of.empty()) {
    part["ratio"] = median(ours.seconds) / median(theirs.seconds);
    context.report.row("ratio of times", fmt::format("{:.3f}", part["ratio"].get<double>()), "wanted: at most 0.9");
  } else {
    part["no_ratio"] = short_of;
    context.report.row("ratio of times", "none", short_of);
  }
}

}  // namespace

Json accuracy_part(const PartContext& context) {
  const Budget budget(context.seconds);
  const Setting& setting = context.setting;
  const std::string data = find_images(setting).string();
  if (data.empty())
    return skipped(context.report, "airbench",
                   "no data: --data takes a folder or an archive with train/<class>/*.jpg and test/<class>/*.jpg");
  Partner pytorch(airbench_peer(setting, {"--serve"}), 0.6 * budget.left());
  if (!pytorch.ready()) context.report.row("PyTorch", "skipped", pytorch.about().value("error", ""));
  Trainings ours, theirs;
  Json part = {{"outcome", "measured"},
               {"data", setting.trial() ? "of backend " + setting.backend : "on the device (train.cache.device = true)"}};
  for (int seed = 1; seed <= kRuns && budget.left() > 0; ++seed) {
    std::vector<std::string> words = our_words(setting, data);
    words.push_back(set("run.seed", std::to_string(seed)));
    const PipelineRun run = run_pipeline(setting, words, "airbench", budget.left());
    const Json answer = pytorch.ask(budget.left());
    context.report.measured({{"seed", seed},
                             {"millrace", run.final_validation},
                             {"seconds", seconds_of(run)},
                             {"why", run.trouble},
                             {"pytorch", answer}});
    if (answer.contains("seconds")) theirs.add(answer["seconds"], answer["accuracy_tta"]);
    if (run.trouble.empty()) {
      ours.add(seconds_of(run), run.final_validation.value("accuracy", 0.0));
    } else if (ours.seconds.empty()) {
      part.update(failed_run(context.report, "airbench, Millrace", run));
    }
  }
  if (!ours.seconds.empty()) part["millrace"] = ours.summary(context.report, "airbench, Millrace");
  if (!theirs.seconds.empty()) {
    part["pytorch"] = theirs.summary(context.report, "airbench, PyTorch");
    part["pytorch"]["about"] = pytorch.about();
  }
  if (!ours.seconds.empty() && !theirs.seconds.empty()) compare(context, ours, theirs, part);
  return part;
}

}  // namespace millrace::gpu

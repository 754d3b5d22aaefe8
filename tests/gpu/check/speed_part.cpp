// Part 3: training steps beside PyTorch's, on the same device, in turns.
#include <fmt/format.h>

#include "check.h"

namespace millrace::gpu {
namespace {

constexpr int kRounds = 7;
constexpr double kPatience = 240;  // for PyTorch's compiler
constexpr double kRoundLimit = 60;

// Rates of one program, and the row that sums them up.
struct Rates {
  std::vector<double> all;
  Json last;

  void add(const Json& answer) {
    if (!answer.contains("images_per_second")) return;
    all.push_back(answer["images_per_second"]);
    last = answer;
  }
  Json summary(const std::string& name, const Json& about) const {
    Json result = {{"median_images_per_second", median(all)}, {"rounds", all}, {"about", about}};
    for (const auto& [key, value] : last.items()) {
      if (key != "images_per_second" && key != "seconds") result[key] = value;
    }
    row(name, fmt::format("{:.1f} images/s", median(all)),
        fmt::format("median of {}, batch {}, {}", all.size(), last.value("batch", 0), last.value("precision", "")));
    return result;
  }
};

}  // namespace

Json synthetic_part(const Setting& setting) {
  const Budget budget(setting.limit);
  Json part = {{"what", "ResNet-50, training steps on synthetic data"}};
  const bool trial = setting.trial();
  const std::vector<std::string> same = {"--batch", trial ? "2" : "256", "--precision", trial ? "fp32" : "bf16",
                                         "--steps", trial ? "1" : "40",  "--warm-up",   trial ? "1" : "15",
                                         "--serve"};
  Command ours{.words = {(setting.tests / "gpu_step_bench").string(), (setting.pipelines / "networks/resnet50.toml").string(),
                         "--backend", setting.backend, "--tune", "measure", "--nondeterministic"},
               .environment = {},
               .log = setting.log("gpu_step_bench")};
  Command theirs{.words = {setting.python, (setting.own / "peers/resnet50.py").string()},
                 .environment = {},
                 .log = setting.log("torch_resnet50"),
                 .of_machine = true};
  for (Command* command : {&ours, &theirs}) command->words.insert(command->words.end(), same.begin(), same.end());
  ours.words.insert(ours.words.end(), setting.bench.begin(), setting.bench.end());
  if (trial) theirs.words.insert(theirs.words.end(), {"--device", "cpu", "--no-compile"});
  Partner millrace(ours, std::min(kPatience, budget.left()));
  if (!millrace.ready()) {
    part["outcome"] = "skipped";
    part["why"] = millrace.about().value("error", "");
    row("Millrace", "skipped", part["why"]);
    return part;
  }
  Partner pytorch(theirs, std::min(kPatience, budget.left()));
  if (!pytorch.ready()) row("PyTorch", "skipped", pytorch.about().value("error", ""));
  Rates rates, peer;
  std::vector<double> ratios;
  for (int round = 0; round < kRounds && budget.left() > 0; ++round) {
    const Json a = millrace.ask(std::min(kRoundLimit, budget.left()));
    const Json b = pytorch.ask(std::min(kRoundLimit, budget.left()));
    rates.add(a);
    peer.add(b);
    if (a.contains("images_per_second") && b.contains("images_per_second")) {
      ratios.push_back(a["images_per_second"].get<double>() / b["images_per_second"].get<double>());
    }
  }
  part["millrace"] = rates.summary("ResNet-50, Millrace", millrace.about());
  if (pytorch.ready()) {
    part["pytorch"] = peer.summary("ResNet-50, PyTorch", pytorch.about());
    part["ratio"] = median(ratios);
    row("ratio", fmt::format("{:.3f}", median(ratios)), "wanted: at least 1.1");
  } else {
    part["pytorch"] = {{"error", pytorch.about().value("error", "")}};
  }
  part["outcome"] = rates.all.empty() ? "failed" : "measured";
  return part;
}

}  // namespace millrace::gpu

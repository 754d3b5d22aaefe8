// Part "throughput": training steps beside PyTorch's, on the same device, in turns.
#include <fmt/format.h>

#include "check.h"

namespace millrace::gpu {
namespace {

constexpr int kRounds = 7;
constexpr double kPatience = 200;  // for PyTorch's compiler, whose cache may be empty
constexpr double kRoundLimit = 60;

// Rates of one program, and the row that sums them up.
struct Rates {
  std::vector<double> all;
  Json last = Json::object();

  void add(const Json& answer) {
    if (!answer.contains("images_per_second")) return;
    all.push_back(answer["images_per_second"]);
    last = answer;
  }
  Json summary(Report& report, const std::string& name, const Json& about) const {
    Json result = {{"median_images_per_second", median(all)}, {"rounds", all}, {"about", about}};
    for (const auto& [key, value] : last.items()) {
      if (key != "images_per_second" && key != "seconds") result[key] = value;
    }
    report.row(name, fmt::format("{:.1f} images/s", median(all)),
               fmt::format("median of {}, batch {}, {}", all.size(), last.value("batch", 0), last.value("precision", "")));
    return result;
  }
};

std::vector<std::string> steps(bool trial) {
  return {"--batch",   trial ? "8" : "256", "--precision", trial ? "fp32" : "bf16", "--steps", trial ? "1" : "40",
          "--warm-up", trial ? "1" : "15",  "--serve"};
}

Command our_command(const Setting& setting) {
  const char* network = setting.trial() ? "networks/quickstart.toml" : "networks/resnet50.toml";
  Command command{.words = {(setting.tests / "gpu_step_bench").string(), (setting.pipelines / network).string(), "--backend",
                            setting.backend, "--tune", "measure", "--nondeterministic"},
                  .environment = setting.environment(),
                  .log = setting.log("gpu_step_bench")};
  for (const std::string& word : steps(setting.trial())) command.words.push_back(word);
  command.words.insert(command.words.end(), setting.bench.begin(), setting.bench.end());
  return command;
}

Command their_command(const Setting& setting) {
  Command command{.words = {setting.python, (setting.own / "peers/resnet50.py").string()},
                  .environment = setting.peer_environment(),
                  .log = setting.log("torch_resnet50"),
                  .of_machine = true};
  for (const std::string& word : steps(setting.trial())) command.words.push_back(word);
  if (setting.trial()) command.words.insert(command.words.end(), {"--device", "cpu", "--no-compile", "--size", "32"});
  return command;
}

}  // namespace

Json throughput_part(const PartContext& context) {
  const Budget budget(context.seconds);
  // One after the other: while one chooses its algorithms by timing them, the other does not use the device.
  Partner millrace(our_command(context.setting), std::min(kPatience, budget.left()));
  if (!millrace.ready()) context.report.row("Millrace", "failed", millrace.about().value("error", ""));
  Partner pytorch(their_command(context.setting), std::min(kPatience, budget.left()));
  if (!pytorch.ready()) context.report.row("PyTorch", "skipped", pytorch.about().value("error", ""));
  Rates rates, peer;
  std::vector<double> ratios;
  for (int round = 0; round < kRounds && budget.left() > 0; ++round) {
    const Json a = millrace.ask(std::min(kRoundLimit, budget.left()));
    const Json b = pytorch.ask(std::min(kRoundLimit, budget.left()));
    context.report.measured({{"millrace", a}, {"pytorch", b}});
    rates.add(a);
    peer.add(b);
    if (a.contains("images_per_second") && b.contains("images_per_second")) {
      ratios.push_back(a["images_per_second"].get<double>() / b["images_per_second"].get<double>());
    }
  }
  Json part = {{"outcome", rates.all.empty() ? "failed" : "measured"}};
  part["millrace"] = rates.summary(context.report, "ResNet-50, Millrace", millrace.about());
  if (pytorch.ready()) part["pytorch"] = peer.summary(context.report, "ResNet-50, PyTorch", pytorch.about());
  if (rates.all.empty()) part["why"] = millrace.about().value("error", "no round ended in time");
  if (!ratios.empty()) {
    part["ratio"] = median(ratios);
    context.report.row("ratio", fmt::format("{:.3f}", median(ratios)), "wanted: at least 1.1");
  }
  return part;
}

}  // namespace millrace::gpu

#include "runner.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <optional>

#include "check.h"
#include "preparation.h"
#include "summary.h"

namespace millrace::gpu {
namespace {

namespace fs = std::filesystem;

constexpr double kMachineLimit = 60;       // seconds
constexpr double kPreparationLimit = 420;  // within which PyTorch compiles both networks on half of the cores

struct Part {
  const char* name;
  Json (*run)(const PartContext&);
  bool timed;  // nothing else may run beside it
};

constexpr Part kParts[] = {
    {"questions", &questions_part, true}, {"agreement", &agreement_part, false}, {"throughput", &throughput_part, true},
    {"accuracy", &accuracy_part, true},   {"files", &files_part, true},          {"rest", &rest_part, true},
    {"sanitizer", &sanitizer_part, true},
};

const Part& part_named(const std::string& name) {
  return *std::find_if(std::begin(kParts), std::end(kParts), [&](const Part& part) { return part.name == name; });
}

// Engine plans of an earlier visit, beside those that are there already.
std::string take_plans(const Setting& setting) {
  fs::path from = setting.plans;
  if (!fs::exists(from)) return fmt::format("there is no '{}'", from.string());
  if (!fs::is_directory(from) && from.extension() == ".gz") {
    const fs::path unpacked = setting.state / "earlier";
    fs::remove_all(unpacked);
    const std::string trouble = unpack(setting, from, unpacked, kMachineLimit);
    if (!trouble.empty()) return trouble;
    from = unpacked / "plans";
  }
  fs::create_directories(setting.plan_folder());
  const fs::path to = fs::is_directory(from) ? setting.plan_folder() : setting.plan_folder() / from.filename();
  fs::copy(from, to, fs::copy_options::skip_existing | fs::copy_options::recursive);
  return {};
}

class Runner {
 public:
  explicit Runner(const Setting& setting)
      : setting_(setting), journal_(setting.journal()), before_(standing_of(read_events(setting.journal()))), clock_(0) {}

  int run() {
    const Schedule schedule(chosen_parts(setting_), 60 * setting_.minutes);
    const std::vector<std::string> wanted = parts_to_run(setting_);
    begin(wanted);
    const bool device = look_at_machine();
    for (std::size_t i = 0; device && i < schedule.parts().size(); ++i) {
      const PartTime& part = schedule.parts()[i];
      if (std::find(wanted.begin(), wanted.end(), part.name) == wanted.end()) continue;
      run_part(part, schedule.seconds_for(i, used()));
    }
    const int status = status_of(summarise(read_events(setting_.journal())));
    journal_.add({{"event", "finish"}, {"status", status}});
    return status;
  }

 private:
  double used() const { return (before_.status >= 0 ? 0 : before_.used) + clock_.spent(); }

  void begin(const std::vector<std::string>& wanted) {
    Json start = {{"event", "start"},
                  {"process", getpid()},
                  {"minutes", setting_.minutes},
                  {"backend", setting_.backend},
                  {"parts", wanted}};
    if (setting_.trial())
      start["trial"] = "on no GPU, a few images and steps: these figures say nothing but that gpu-check works";
    journal_.add(std::move(start));
    if (setting_.plans.empty()) return;
    std::string trouble;
    try {
      trouble = take_plans(setting_);
    } catch (const std::exception& error) {
      trouble = error.what();
    }
    Report(journal_, "preparation").row("engine plans of an earlier visit", trouble.empty() ? "taken" : "failed", trouble);
  }

  // false: there is certainly no device. No part is begun then, so that the next run tries all of them.
  bool look_at_machine() {
    machine_ = machine_in_a_process(setting_, kMachineLimit);
    journal_.add({{"event", "machine"}, {"machine", machine_}});
    return !machine_.value("device", Json::object()).contains("why_not");
  }

  void run_part(const PartTime& time, double seconds) {
    Report report(journal_, time.name);
    if (seconds == 0) {
      report.add("end", {{"result", {{"outcome", "no time"}, {"why", fmt::format("less than {:.0f} s were left", time.least)}}}});
      return;
    }
    report.add("begin", {{"seconds", seconds}});
    const Budget clock(seconds);
    Json result;
    try {
      const Part& part = part_named(time.name);
      prepare(part);
      result = part.run({setting_, report, machine_, cores_of(part), clock.left()});
    } catch (const std::exception& error) {
      result = {{"outcome", "failed"}, {"why", error.what()}};
    }
    report.add("end", {{"result", result}, {"seconds", clock.spent()}});
  }

  // Begins with the first part during which it may go on. A part that measures waits for its end.
  void prepare(const Part& part) {
    const bool measures = part.run == &throughput_part || part.run == &accuracy_part || part.run == &files_part;
    if (!preparation_ && (measures || !part.timed)) {
      preparation_.emplace(setting_, Report(journal_, "preparation"), side_cores(),
                           std::min(kPreparationLimit, 60 * setting_.minutes / 2));
    }
    if (preparation_ && part.timed) preparation_->finish();
  }

  // Half of the cores compile beside the agreement tests, where there are enough of them.
  std::vector<int> side_cores() const {
    const std::vector<int> cores = allowed_cores();
    return cores.size() < 8 ? cores : std::vector<int>(cores.end() - static_cast<std::ptrdiff_t>(cores.size() / 2), cores.end());
  }
  std::vector<int> cores_of(const Part& part) const {
    std::vector<int> cores = allowed_cores();
    if (!part.timed && cores.size() >= 8) cores.resize(cores.size() - cores.size() / 2);
    return cores;
  }

  const Setting& setting_;
  Journal journal_;
  const Standing before_;
  const Budget clock_;
  Json machine_;
  std::optional<Preparation> preparation_;
};

}  // namespace

int run_parts(const Setting& setting) { return Runner(setting).run(); }

std::vector<std::string> parts_to_run(const Setting& setting) {
  const Standing standing = standing_of(read_events(setting.journal()));
  std::vector<std::string> names;
  for (const PartTime& part : chosen_parts(setting)) {
    const bool ended = std::find(standing.ended.begin(), standing.ended.end(), part.name) != standing.ended.end();
    if (!ended) names.push_back(part.name);
  }
  return names;
}

}  // namespace millrace::gpu

// quarantine.jsonl: the samples that a run could not use.
#include <filesystem>
#include <optional>

#include "millrace/json_lines.h"
#include "millrace/plugin.h"

namespace millrace {
namespace {

// A line a bad sample. A run without one has no such file.
class LedgerObserver final : public RunObserver {
 public:
  struct Params {};
  static void describe(ObserverDescription<Params>& d) {
    d.name("ledger").text("Writes quarantine.jsonl into the run's folder: every bad sample, with its cause.").by_default();
  }

  void start(const RunStart& e, RunControl& control) override {
    folder_ = e.folder;
    resumed_ = e.resumed;
    control_ = &control;
  }

  void bad_sample(const BadSampleEvent& e) override {
    if (folder_.empty()) return;
    if (!file_) {
      file_.emplace((folder_ / "quarantine.jsonl").string(), [this](std::string_view text) { control_->warn(text); }, resumed_);
    }
    JsonLine line;
    line.add("graph", e.graph).add("path", e.path).add("member", e.member).add("offset", e.offset).add("stage", e.stage);
    line.add("cause", e.cause).add("action", e.action).add("epoch", e.epoch).add("position", e.position);
    file_->write(line.add("index", e.index).add("attempt", e.attempt).text());
  }

 private:
  std::filesystem::path folder_;  // empty: nothing is written
  bool resumed_ = false;          // the file has lines already
  RunControl* control_ = nullptr;
  std::optional<LineFile> file_;
};

MILLRACE_PART { registry.add_observer<LedgerObserver>(); }

}  // namespace
}  // namespace millrace

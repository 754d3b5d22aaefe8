// quarantine.jsonl: the samples that a run could not use.
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>

#include "millrace/observer.h"
#include "millrace/plugin.h"
#include "millrace/util/json_lines.h"

namespace millrace {
namespace {

// Truncates the file after the first `count` lines.
void keep_lines(const std::filesystem::path& path, std::uint64_t count) {
  std::uintmax_t bytes = 0;
  {
    std::ifstream file(path, std::ios::binary);
    if (!file) return;
    for (std::string line; count > 0 && std::getline(file, line) && !file.eof(); --count) bytes += line.size() + 1;
  }
  std::error_code ignored;  // extra lines do less harm than ending the run
  std::filesystem::resize_file(path, bytes, ignored);
}

// One line per bad sample: line N is the sample with BadSampleEvent::count N. A run without one has no such file.
//
// A run that resumes from a checkpoint appends to its file. Lines beyond those that the checkpoint counts belong to repeated
// steps: they are cut off and written again.
class LedgerObserver final : public RunObserver {
 public:
  struct Params {
    std::string file = "quarantine.jsonl";
  };
  static void describe(ObserverDescription<Params>& d) {
    d.name("ledger").text("Writes quarantine.jsonl into the run's folder: every bad sample and its cause.").by_default();
    d.params.add("file", &Params::file).text("in the run's folder, or an absolute path, which also works without a run folder");
  }
  explicit LedgerObserver(const Params& params) : file_name_(params.file) {}

  void start(const RunStart& e, RunControl& control) override {
    folder_ = e.folder;
    resumed_ = e.resumed;
    control_ = &control;
  }

  void bad_sample(const BadSampleEvent& e) override {
    if (path().empty()) return;
    if (!file_) {
      if (resumed_) keep_lines(path(), e.count - 1);
      file_.emplace(
          path().string(), [this](std::string_view text) { control_->warn(text); }, resumed_);
    }
    JsonLine line;
    line.add("graph", e.graph).add("path", e.path).add("member", e.member).add("offset", e.offset).add("stage", e.stage);
    line.add("cause", e.cause).add("action", e.action).add("epoch", e.epoch).add("position", e.position);
    file_->write(line.add("index", e.index).add("attempt", e.attempt).text());
  }

  void sync() override {
    if (file_) file_->sync();
  }

  void end(const RunEnd& e) override {
    if (file_) return file_->finish();
    if (resumed_ && !path().empty() && e.error.empty()) keep_lines(path(), e.bad_samples);
  }

 private:
  // Empty: nothing is written.
  std::filesystem::path path() const {
    return folder_.empty() && file_name_.is_relative() ? std::filesystem::path() : folder_ / file_name_;
  }

  const std::filesystem::path file_name_;
  std::filesystem::path folder_;
  bool resumed_ = false;  // the file has lines already
  RunControl* control_ = nullptr;
  std::optional<LineFile> file_;
};

MILLRACE_PART { registry.add_observer<LedgerObserver>(); }

}  // namespace
}  // namespace millrace

// An observer in a separate project: writes events into a text file.
#include <fmt/format.h>
#include <millrace/observer.h>
#include <millrace/plugin.h>

#include <fstream>

namespace {

using namespace millrace;

class Journal : public RunObserver {
 public:
  struct Params {
    std::string file = "journal.txt";
    double lowest_loss = 0;
  };
  static void describe(ObserverDescription<Params>& d) {
    d.name("journal").text("Writes a journal of the run in plain words.");
    d.params.add("file", &Params::file).text("in the working folder");
    d.params.add("lowest_loss", &Params::lowest_loss).range(0).text("a step whose loss is lower stops the run");
  }
  explicit Journal(const Params& params) : params_(params) {}

  void start(const RunStart& e, RunControl& control) override {
    control_ = &control;
    file_.open(params_.file);
    if (!file_) fail(ErrorKind::run, "'{}' cannot be written", params_.file);
    file_ << fmt::format("{} begins: {} steps\n", e.name, e.steps);
  }
  void step(const StepEvent& e) override {
    file_ << fmt::format("step {}", e.step);
    for (const Figure& figure : e.figures) file_ << fmt::format(", {} {:.3f}", figure.name, figure.value);
    file_ << '\n';
    if (!e.figures.empty() && e.figures[0].value < params_.lowest_loss) control_->stop();
  }
  void epoch(const EpochEvent& e) override { file_ << fmt::format("epoch {} took {}\n", e.epoch, duration_text(e.seconds)); }
  void warning(const WarningEvent& e) override { file_ << "warning: " << e.text << '\n'; }
  void request(const RequestEvent& e) override {
    if (e.state == RequestEvent::State::completed) file_ << fmt::format("{}, as {} asked\n", to_string(e.kind), e.by);
  }
  void end(const RunEnd& e) override { file_ << fmt::format("the end, after {} steps\n", e.step); }
  void flush() override { file_.flush(); }

 private:
  const Params params_;
  RunControl* control_ = nullptr;
  std::ofstream file_;
};

}  // namespace

MILLRACE_PLUGIN("journal", "1.0", "An observer that writes a journal.") { registry.add_observer<Journal>(); }

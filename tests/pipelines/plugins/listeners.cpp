// Observers for tests: two slow ones, one that sends a request, two that record ticks.
#include <millrace/observer.h>
#include <millrace/plugin.h>

#include <atomic>
#include <chrono>
#include <fstream>
#include <thread>

namespace {

using namespace millrace;

std::atomic<bool> run_waits{false};  // for the observer "slow", after a step: NotesWaits was notified

// Sleeps at every event.
class Slow : public RunObserver {
 public:
  struct Params {
    double seconds = 1;
    bool until_waited_for = false;
  };
  static void describe(ObserverDescription<Params>& d) {
    d.name("slow").text("Sleeps at every event, and must be told all of them.");
    d.params.add("seconds", &Params::seconds).range(0).text("of sleep");
    d.params.add("until_waited_for", &Params::until_waited_for)
        .text("after the first step it sleeps until notes_waits hears of it");
  }
  explicit Slow(const Params& params) : params_(params) {}
  void start(const RunStart&, RunControl&) override { sleep(); }
  void step(const StepEvent& e) override {
    while (e.step == 1 && params_.until_waited_for && !run_waits) sleep(0.01);
    sleep();
  }
  void epoch(const EpochEvent&) override { sleep(); }
  void pass(const PassEvent&) override { sleep(); }
  void warning(const WarningEvent&) override { sleep(); }
  void tick(const TickEvent&) override { sleep(); }
  void end(const RunEnd&) override { sleep(); }

 private:
  void sleep() const { sleep(params_.seconds); }
  static void sleep(double seconds) { std::this_thread::sleep_for(std::chrono::duration<double>(seconds)); }
  const Params params_;
};

class SlowPage : public Slow {
 public:
  static void describe(ObserverDescription<Params>& d) {
    Slow::describe(d);
    d.name("slow_page").text("Sleeps at every event, and takes the latest.").delivery(Delivery::latest);
  }
  using Slow::Slow;
};

class Asker : public RunObserver {
 public:
  struct Params {
    std::int64_t at = 0;
    std::string ask;
    double factor = 0.5;
    bool at_bad_sample = false;
  };
  static void describe(ObserverDescription<Params>& d) {
    d.name("asker").text("Asks the run for something.");
    d.params.add("at", &Params::at).range(0).text("the step after which it asks; 0: before the first");
    d.params.add("ask", &Params::ask).required().choices({"stop", "save", "validate", "checkpoint", "rate_factor", "fail"});
    d.params.add("factor", &Params::factor).text("of the learning rate");
    d.params.add("at_bad_sample", &Params::at_bad_sample).text("it asks once, at the first bad sample");
  }
  explicit Asker(const Params& params) : params_(params) {}
  void start(const RunStart&, RunControl& control) override {
    control_ = &control;
    if (params_.at == 0 && !params_.at_bad_sample) ask();
  }
  void bad_sample(const BadSampleEvent& e) override {
    if (params_.at_bad_sample && e.count == 1) ask();
  }
  void step(const StepEvent& e) override {
    if (e.step == static_cast<std::uint64_t>(params_.at)) ask();
  }

 private:
  void ask() const {
    if (params_.ask == "stop") control_->stop();
    if (params_.ask == "save") control_->save();
    if (params_.ask == "validate") control_->validate();
    if (params_.ask == "checkpoint") control_->checkpoint();
    if (params_.ask == "rate_factor") control_->rate_factor(params_.factor);
    if (params_.ask == "fail") fail(ErrorKind::run, "the asker has lost its tongue");
  }
  const Params params_;
  RunControl* control_ = nullptr;
};

// The console repeats this every ten seconds.
class NotesWaits : public RunObserver {
 public:
  struct Params {
    std::string file;
  };
  static void describe(ObserverDescription<Params>& d) {
    d.name("notes_waits").text("Appends a line to a file at every tick at which the run waits for something.");
    d.params.add("file", &Params::file).required().text("the file");
  }
  explicit NotesWaits(const Params& params) : file_(params.file, std::ios::app) {}
  void tick(const TickEvent& e) override {
    if (e.step > 0 && e.waits_for == "observer slow") run_waits = true;
    if (!e.waits_for.empty()) file_ << fmt::format("step {}/{} waits for {}\n", e.step, e.steps, e.waits_for);
  }

 private:
  std::ofstream file_;
};

class NotesPace : public RunObserver {
 public:
  struct Params {
    std::string file;
  };
  static void describe(ObserverDescription<Params>& d) {
    d.name("notes_pace").text("Appends to a file, at every tick that knows the time left: step, images/s, seconds left.");
    d.params.add("file", &Params::file).required().text("the file");
  }
  explicit NotesPace(const Params& params) : file_(params.file, std::ios::app) {}
  void tick(const TickEvent& e) override {
    if (e.seconds_left > 0) file_ << fmt::format("{} {} {}\n", e.step, e.images_per_second, e.seconds_left);
  }

 private:
  std::ofstream file_;
};

}  // namespace

MILLRACE_PLUGIN("listeners", "1.0", "Observers for tests.") {
  registry.add_observer<Slow>();
  registry.add_observer<SlowPage>();
  registry.add_observer<Asker>();
  registry.add_observer<NotesWaits>();
  registry.add_observer<NotesPace>();
}

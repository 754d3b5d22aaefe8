// Observer "top": a run on a terminal, with stages and curves.
#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <string>
#include <vector>

#include "millrace/observer.h"
#include "millrace/plugin.h"
#include "millrace/util/standard_error.h"
#include "screen.h"

namespace millrace::top {
namespace {

constexpr auto kPeriod = std::chrono::milliseconds(200);

struct Size {
  std::size_t columns = 80, rows = 24;
};
Size terminal_size() {
  winsize size{};
  if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0 || size.ws_row == 0) return {};
  return {size.ws_col, size.ws_row};
}

// Draws over its last picture, upwards from the cursor's line, and changes no terminal state that would need restoring: no
// alternate screen, hidden cursor or wrapping. So however the run ends, even by kill -9, the terminal is intact, with the last
// picture above the cursor. Draws nothing if standard error is not a terminal.
class TopObserver final : public RunObserver {
 public:
  struct Params {
    bool colours = true;
  };
  static void describe(ObserverDescription<Params>& d) {
    d.name("top")
        .text("Shows progress, curves, stages, queues and devices on a terminal, over standard error.")
        .delivery(Delivery::latest);
    d.params.add("colours", &Params::colours).text("use colours, unless the environment has NO_COLOR");
  }
  explicit TopObserver(const Params& params)
      : colours_(params.colours && std::getenv("NO_COLOR") == nullptr), terminal_(isatty(STDERR_FILENO) == 1) {}

  void start(const RunStart& e, RunControl&) override { screen_.begin(e); }
  void step(const StepEvent& e) override { screen_.add(e); }
  void telemetry(const TelemetryEvent& e) override { screen_.add(e); }
  void tick(const TickEvent& e) override {
    screen_.add(e);
    if (Clock::now() - drawn_ >= kPeriod) draw();
  }
  void epoch(const EpochEvent& e) override { screen_.say(fmt::format("epoch {}{}", e.epoch, figures(e.figures))); }
  void pass(const PassEvent& e) override {
    screen_.say(fmt::format("{}: {:.0f} images{}", e.graph, e.samples, figures(e.figures)));
  }
  void checkpoint(const CheckpointEvent& e) override {
    if (!e.by_default) screen_.say(fmt::format("checkpoint after step {}: {}", e.step, e.path.string()));
  }
  void bad_sample(const BadSampleEvent& e) override {
    screen_.say(fmt::format("bad sample {}: '{}': {} ({})", e.action, e.place, e.cause, e.stage));
  }
  void request(const RequestEvent& e) override {
    if (e.state != RequestEvent::State::asked) screen_.say(fmt::format("{} of {}: {}", to_string(e.kind), e.by, e.text));
  }
  // Stays above the picture and scrolls.
  void warning(const WarningEvent& e) override {
    if (!terminal_) return;
    rise();
    print_to_stderr("warning: {}\n", with_indented_lines(e.text));
    lines_ = 0;
    if (begun_) draw();
  }
  void end(const RunEnd&) override { draw(); }

 private:
  using Clock = std::chrono::steady_clock;

  static std::string figures(const std::vector<Figure>& all) {
    std::string text;
    for (const Figure& f : all) {
      if (f.is_detail) continue;
      text += f.percent ? fmt::format("  {} {:.2f} %", f.name, 100 * f.value) : fmt::format("  {} {:.4g}", f.name, f.value);
    }
    return text;
  }
  // Moves to the first line of the last picture and clears from there.
  void rise() {
    if (lines_ > 0) write_to_stderr(fmt::format("\x1b[{}A\r\x1b[J", lines_));
  }
  void draw() {
    if (!terminal_) return;
    begun_ = true;
    drawn_ = Clock::now();
    const Size size = terminal_size();
    std::string text = lines_ > 0 ? fmt::format("\x1b[{}A\r", std::min(lines_, size.rows - 1)) : "";
    const std::vector<std::string> lines = screen_.lines(size.columns - 1, size.rows - 1, colours_);
    for (const std::string& line : lines) text += line + "\x1b[K\n";
    text += "\x1b[J";
    lines_ = lines.size();
    write_to_stderr(text);
  }

  const bool colours_, terminal_;
  bool begun_ = false;
  Screen screen_;
  std::size_t lines_ = 0;  // in the last picture
  Clock::time_point drawn_;
};

MILLRACE_PART { registry.add_observer<TopObserver>(); }

}  // namespace
}  // namespace millrace::top

// The progress line and the messages that a person sees during a run.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>

#include "millrace/observer.h"
#include "millrace/plugin.h"
#include "millrace/util/standard_error.h"
#include "millrace/util/text.h"

namespace millrace {
namespace {

constexpr auto kTerminalPeriod = std::chrono::milliseconds(200);
constexpr auto kPlainPeriod = std::chrono::seconds(10);
constexpr std::size_t kFiguresShown = 2;       // for training
constexpr std::uint64_t kBadSamplesNamed = 5;  // the ledger has all of them

// "0.1234", "97.50 %"; "1.235e+20" for values too long to read, "1.235e-07" for values that the decimals would hide.
std::string figure_text(const Figure& figure, int decimals) {
  constexpr double kLarge = 1e6;
  const double value = figure.percent ? 100 * figure.value : figure.value, size = std::abs(value);
  const bool hidden = !figure.percent && size > 0 && size < std::pow(10, -decimals);  // a small share may show as 0.00 %
  const std::string text = size >= kLarge || hidden ? fmt::format("{:.3e}", value)
                                                    : fmt::format("{:.{}f}", value, figure.percent ? decimals - 2 : decimals);
  return figure.percent ? text + " %" : text;
}

// "loss 0.1234  accuracy 97.50 %"
std::string figures_text(const std::vector<Figure>& figures, int decimals, std::size_t most = SIZE_MAX) {
  std::string text;
  for (const Figure& figure : figures) {
    if (figure.is_detail) continue;
    if (most-- == 0) break;
    std::string name = figure.name;
    std::replace(name.begin(), name.end(), '_', ' ');
    if (!text.empty()) text += "  ";
    text += fmt::format("{} {}", name, figure_text(figure, decimals));
  }
  return text;
}

// "train: epoch 3/15  step 412/2925  loss 1.034  accuracy 63.2 %  412 images/s  waits for: decode_image 61 %, device idle 40 %  2
// min 10 s left"
std::string progress_line(const TickEvent& e) {
  const double shown_epoch = std::min(std::floor(e.epoch) + 1, std::ceil(e.epochs));
  std::string line = fmt::format("{}: epoch {:.0f}/{:g}  step {}/{}", e.graph, shown_epoch, e.epochs, e.step, e.steps);
  if (!e.figures.empty()) line += "  " + figures_text(e.figures, 3, kFiguresShown);
  if (e.images_per_second > 0) line += fmt::format("  {:.0f} images/s", e.images_per_second);
  if (!e.waits_for.empty()) line += "  waits for: " + e.waits_for;
  if (e.seconds_left > 0) line += "  " + duration_text(e.seconds_left) + " left";
  return line;
}

std::string asked_text(const RequestEvent& e) {
  if (e.kind != RequestKind::stop || !e.text.empty()) return {};  // the completed request shows its reason
  if (e.signal != 0) return "stopping after the current step; another signal stops at once";
  return fmt::format("stopping after the current step, requested by {}", e.by);
}

std::string completed_text(const RequestEvent& e) {
  switch (e.kind) {
    case RequestKind::save: return fmt::format("weights after step {}: {}", e.step, e.text);
    case RequestKind::rate_factor:
      return fmt::format("from step {} the learning rate is multiplied by {:g}, requested by {}", e.step + 1, e.factor, e.by);
    case RequestKind::stop:
      if (!e.text.empty()) return fmt::format("stopped after {} step{} ({})", e.step, e.step == 1 ? "" : "s", e.text);
      break;
    case RequestKind::validate:
    case RequestKind::checkpoint: break;
  }
  return {};
}

// Writes to standard error: on a terminal a line that renews itself, elsewhere a plain line now and then; and permanent lines.
class ConsoleObserver final : public RunObserver {
 public:
  struct Params {
    bool quiet = false;
  };
  static void describe(ObserverDescription<Params>& d) {
    d.name("console").text("Shows progress, results and warnings on standard error.").delivery(Delivery::latest).by_default();
    d.params.add("quiet", &Params::quiet).text("only warnings and bad samples");
  }
  explicit ConsoleObserver(const Params& params) : quiet_(params.quiet), terminal_(isatty(STDERR_FILENO) == 1) {}
  ~ConsoleObserver() override {
    if (open_line_) print_to_stderr("\n");
  }

  void start(const RunStart& e, RunControl&) override {
    shown_ = Clock::now();
    has_folder_ = !e.folder.empty();
    if (e.checkpoint.empty()) return;
    const std::uint64_t done = e.first_step - 1;
    const std::string before = e.checkpoint_step == done ? "" : fmt::format(", {} as batches were before", e.checkpoint_step);
    say(fmt::format("resumes from step {}{}: {}{}", done, before, e.checkpoint.string(),
                    done >= e.steps ? ": the run is complete" : ""));
  }

  void tick(const TickEvent& e) override {
    const auto since = Clock::now() - shown_;
    if (quiet_ || (terminal_ ? since < kTerminalPeriod : since < kPlainPeriod)) return;
    shown_ = Clock::now();
    std::string line = progress_line(e);
    if (!terminal_) return say(line);
    if (line.size() >= terminal_width()) line.resize(terminal_width() - 1);
    print_to_stderr("\r\x1b[K{}", line);
    open_line_ = true;
  }

  void epoch(const EpochEvent& e) override {
    const std::string figures = !e.reported         ? "no stage reports the loss"
                                : e.figures.empty() ? "no images"
                                                    : figures_text(e.figures, 4, kFiguresShown);
    const std::string stream = e.reported ? fmt::format("  stream {:016x}", e.stream_hash) : "";
    const std::string waits_for = e.waits_for.empty() ? "" : "  waits for: " + e.waits_for;
    const double done = std::min(static_cast<double>(e.epoch), e.epochs);  // the last epoch may be partial
    say(fmt::format("{}: epoch {:g}/{:g}  {}  {:.0f} images/s{}{}", e.graph, done, e.epochs, figures, e.images_per_second, stream,
                    waits_for));
  }

  void pass(const PassEvent& e) override {
    const std::string images = e.samples == 0 ? "no images" : fmt::format("{:.0f} image{}", e.samples, e.samples == 1 ? "" : "s");
    const std::string result = !e.reported         ? fmt::format("{:.0f} images/s", e.images_per_second)
                               : e.figures.empty() ? "nothing was measured"
                                                   : figures_text(e.figures, 4);
    const std::string only = e.only_class.empty() ? "" : fmt::format("  all as '{}'", line_text(e.only_class));
    const std::string weights = e.best_step == 0 ? "" : fmt::format("  of the best weights, after step {}", e.best_step);
    say(fmt::format("{}: {}  {}{}  {}{}", e.graph, images, result, only, duration_text(e.seconds), weights));
  }

  void checkpoint(const CheckpointEvent& e) override {
    if (e.by_default) return;  // one per epoch, shown with the next line
    say(fmt::format("checkpoint after step {}: {} (training paused for {:.3g} ms)", e.step, e.path.string(),
                    e.stood_still_seconds * 1e3));
  }

  void bad_sample(const BadSampleEvent& e) override {
    last_bad_ = fmt::format("'{}': {} ({})", e.place, e.cause, e.stage);
    if (e.count > kBadSamplesNamed) return;
    print(fmt::format("bad sample {}: {}", e.action, last_bad_));
    if (e.count < kBadSamplesNamed) return;
    print(has_folder_ ? "further bad samples are counted, and listed only in quarantine.jsonl"
                      : "further bad samples are only counted; without a run folder, [observe.ledger] file needs an absolute "
                        "path to list them");
  }

  // Counts those beyond the few that were named as they came.
  void end(const RunEnd& e) override {
    if (e.bad_samples <= kBadSamplesNamed || last_bad_.empty() || !e.error.empty()) return;
    print(fmt::format("warning: {} bad samples in all; the last is {}", e.bad_samples, last_bad_));
  }

  void request(const RequestEvent& e) override {
    const std::string text = e.state == RequestEvent::State::asked ? asked_text(e)
                             : e.state == RequestEvent::State::completed
                                 ? completed_text(e)
                                 : fmt::format("{} requested {}, which was refused: {}", e.by, to_string(e.kind), e.text);
    if (!text.empty()) say(text);
  }

  void warning(const WarningEvent& e) override { print("warning: " + with_indented_lines(e.text)); }

 private:
  using Clock = std::chrono::steady_clock;

  // Prints a permanent line.
  void say(const std::string& line) {
    if (!quiet_) print(line);
  }
  void print(const std::string& line) {
    open_line_ ? print_to_stderr("\r\x1b[K{}\n", line) : print_to_stderr("{}\n", line);
    open_line_ = false;
  }

  const bool quiet_, terminal_;
  bool open_line_ = false, has_folder_ = false;
  std::string last_bad_;  // empty if there was none
  Clock::time_point shown_ = Clock::now();
};

MILLRACE_PART { registry.add_observer<ConsoleObserver>(); }

}  // namespace
}  // namespace millrace

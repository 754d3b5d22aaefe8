#include "run/progress.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cmath>
#include <cstdio>

#include "millrace/run_events.h"

namespace millrace {
namespace {

constexpr auto kTerminalPeriod = std::chrono::milliseconds(200);
constexpr auto kPlainPeriod = std::chrono::seconds(10);

std::size_t terminal_width() {
  winsize size{};
  return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 100;
}

}  // namespace

std::string progress_line(const ProgressFigures& f) {
  const double shown_epoch = std::min(std::floor(f.epoch) + 1, std::ceil(f.epochs));
  std::string line = fmt::format("{}: epoch {:.0f}/{:g}  step {}/{}", f.name, shown_epoch, f.epochs, f.step, f.steps);
  if (!f.measured.empty()) line += "  " + f.measured;
  if (f.images_per_second > 0) line += fmt::format("  {:.0f} images/s", f.images_per_second);
  if (!f.waits_for.empty()) line += "  waits for " + f.waits_for;
  if (f.seconds_left > 0) line += "  " + duration_text(f.seconds_left) + " left";
  return line;
}

Progress::Progress(bool quiet) : quiet_(quiet), terminal_(isatty(STDERR_FILENO) == 1), last_(std::chrono::steady_clock::now()) {}

Progress::~Progress() {
  if (open_line_) fmt::print(stderr, "\n");
}

bool Progress::due() const {
  const auto since = std::chrono::steady_clock::now() - last_;
  return !quiet_ && (terminal_ ? since >= kTerminalPeriod : since >= kPlainPeriod);
}

void Progress::show(const ProgressFigures& figures) {
  last_ = std::chrono::steady_clock::now();
  if (quiet_) return;
  std::string line = progress_line(figures);
  if (!terminal_) {
    fmt::print(stderr, "{}\n", line);
    return;
  }
  if (line.size() >= terminal_width()) line.resize(terminal_width() - 1);
  fmt::print(stderr, "\r\x1b[K{}", line);
  std::fflush(stderr);
  open_line_ = true;
}

void Progress::say(const std::string& line) {
  if (quiet_) return;
  fmt::print(stderr, "{}{}\n", open_line_ ? "\r\x1b[K" : "", line);
  open_line_ = false;
}

}  // namespace millrace

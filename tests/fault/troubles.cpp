#include "troubles.h"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <fstream>
#include <utility>

namespace millrace::test {

namespace fs = std::filesystem;

double seconds_now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

Troubles::Troubles(Setting setting, std::mt19937_64& random)
    : setting_(std::move(setting)), random_(random), kinds_({"pause", "starve"}) {
  if (!setting_.control.empty()) {
    kinds_.insert(kinds_.end(), {"ENOSPC", "EDQUOT", "EIO", "EROFS", "full", "short", "slow"});
  }
  next_ = seconds_now() + draw(setting_.between);
}

double Troubles::draw(double longest) {
  return std::uniform_real_distribution<double>(std::min(0.3, longest / 2), longest)(random_);
}

void Troubles::look(const RunningProgram& program) {
  const double now = seconds_now();
  if (!is_calm() && now >= until_) end(program);
  if (!is_calm() || now < next_) return;
  if (left_.empty()) {
    left_ = kinds_;
    std::shuffle(left_.begin(), left_.end(), random_);
  }
  begin(program, left_.back());
  left_.pop_back();
}

void Troubles::begin(const RunningProgram& program, const std::string& kind) {
  now_ = kind;
  until_ = seconds_now() + draw(setting_.longest);
  ++seen_[kind];
  if (kind == "pause") return program.send_to_all(SIGSTOP);
  if (kind == "starve") {
    hogs_.emplace();
    return;
  }
  std::ofstream(setting_.control + ".new") << kind;
  fs::rename(setting_.control + ".new", setting_.control);
}

void Troubles::end(const RunningProgram& program) {
  if (now_ == "pause") program.send_to_all(SIGCONT);
  hogs_.reset();
  std::error_code ignored;
  fs::remove(setting_.control, ignored);
  now_.clear();
  next_ = seconds_now() + draw(setting_.between);
}

}  // namespace millrace::test

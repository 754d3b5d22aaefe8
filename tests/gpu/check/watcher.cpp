#include "watcher.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <fstream>
#include <thread>

#include "check.h"
#include "millrace/error.h"
#include "publish.h"
#include "runner.h"
#include "summary.h"
#include "supervisor.h"

namespace millrace::gpu {
namespace {

namespace fs = std::filesystem;

constexpr double kCopyAfter = 20;  // seconds, when there is something new
constexpr auto kLook = std::chrono::milliseconds(300);

volatile std::sig_atomic_t received = 0;
void receive(int signal) { received = signal; }

fs::path run_lock(const Setting& setting) { return setting.state / "run.lock"; }
fs::path watch_lock(const Setting& setting) { return setting.state / "watch.lock"; }

// In /tmp anybody could have made it.
void make_state_folder(const Setting& setting) {
  fs::create_directories(setting.state.parent_path());
  mkdir(setting.state.c_str(), 0700);
  struct stat status {};
  if (stat(setting.state.c_str(), &status) != 0 || !S_ISDIR(status.st_mode) || status.st_uid != getuid()) {
    fail(ErrorKind::usage, "'{}' is no folder of this user; choose another with --state", setting.state.string());
  }
  fs::create_directories(setting.state / "logs");
}

// What an earlier run found goes; what took time to make stays.
void forget(const Setting& setting) {
  for (const char* name : {"journal.jsonl", "watched", "logs", "answers"}) fs::remove_all(setting.state / name);
  fs::create_directories(setting.state / "logs");
}

class Watch {
 public:
  explicit Watch(const Setting& setting) : setting_(setting), lock_(watch_lock(setting)), time_(60 * setting.watch_minutes) {
    if (!lock_.held()) {
      fail(ErrorKind::run, "process {} watches this run already", holder_of(watch_lock(setting)));
    }
    std::ifstream(setting_.state / "watched") >> offset_;
  }

  int run() {
    for (const int signal : {SIGINT, SIGTERM, SIGHUP}) std::signal(signal, receive);
    find_or_start();
    std::fflush(stdout);  // who kills the watcher right away has been told
    Budget since_copy(0);
    copy();
    while (true) {
      const bool alive = holder_of(run_lock(setting_)) != 0;  // asked first: what it writes before its end is read below
      const bool part_ended = tell();
      if (part_ended || (new_ && since_copy.spent() > kCopyAfter)) {
        copy();
        since_copy = Budget(0);
      }
      if (!alive) return ended();
      if (received != 0 || time_.left() <= 0) return leave();
      std::this_thread::sleep_for(kLook);
    }
  }

 private:
  void find_or_start() {
    if (const int process = holder_of(run_lock(setting_)); process != 0) {
      fmt::print("watching the run of process {}\n", process);
      return;
    }
    if (setting_.fresh) {
      forget(setting_);
      offset_ = 0;
    }
    const Standing standing = standing_of(read_events(setting_.journal()));
    if (parts_to_run(setting_).empty()) return;
    if (standing.started && standing.status < 0) {
      fmt::print("the last run {} ({}); what is not done goes on\n", standing.stopped ? "was stopped" : "died", standing.doing);
      end_processes_of(setting_.state);
    }
    std::fflush(stdout);  // the run's process has a copy of what is not printed yet
    if (!start_detached(run_lock(setting_), setting_.state / "logs/runner.log", [this] { return run_parts(setting_); })) {
      fail(ErrorKind::run, "the run does not start: {}", tail((setting_.state / "logs/runner.log").string()));
    }
    fmt::print("the run goes on in the background for {} minutes at most; its folder is {}\n", setting_.minutes,
               setting_.state.string());
  }

  // Prints what is new. true: a part has ended.
  bool tell() {
    bool part_ended = false;
    for (const Json& event : read_events(setting_.journal(), offset_)) {
      new_ = true;
      part_ended = part_ended || event.value("event", "") == "end";
      fmt::print("{}", line_for(event));
    }
    std::fflush(stdout);
    std::ofstream(setting_.state / "watched") << offset_ << "\n";
    return part_ended;
  }

  Json copy() {
    new_ = false;
    return publish(setting_);
  }

  int ended() {
    tell();
    const Json results = copy();
    const Standing standing = standing_of(read_events(setting_.journal()));
    fmt::print("{}results: {}\n", table_of(results), (setting_.out / "results.tar.gz").string());
    if (standing.status >= 0) return standing.status;
    fmt::print("the run {} ({}); the same command goes on with what is not done\n{}\n", standing.stopped ? "was stopped" : "died",
               standing.doing, tail((setting_.state / "logs/runner.log").string()));
    return 1;
  }

  int leave() {
    copy();
    fmt::print("the run goes on; the same command watches it again, and --stop ends it\nresults so far: {}\n",
               (setting_.out / "results.tar.gz").string());
    return received != 0 ? 128 + static_cast<int>(received) : kGoesOn;
  }

  const Setting& setting_;
  const FileLock lock_;
  const Budget time_;
  std::uintmax_t offset_ = 0;
  bool new_ = false;  // since the last copy
};

}  // namespace

int watch(const Setting& setting) {
  make_state_folder(setting);
  return Watch(setting).run();
}

int stop(const Setting& setting) {
  const int process = holder_of(run_lock(setting));
  if (process == 0) {
    fmt::print("no run is under way in {}\n", setting.state.string());
    return 0;
  }
  Journal(setting.journal()).add({{"event", "stopped"}});  // first: a watcher then knows why the run ends
  ::kill(process, SIGKILL);
  while (holder_of(run_lock(setting)) != 0) std::this_thread::sleep_for(kLook);
  end_processes_of(setting.state);
  fmt::print("stopped; the same command without --stop goes on with what is not done\n");
  if (holder_of(watch_lock(setting)) == 0) publish(setting);  // a watcher does it
  return 0;
}

}  // namespace millrace::gpu

#include "started_ranks.h"

#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>

#include "millrace/error.h"
#include "millrace/util/standard_error.h"
#include "ranks/endpoint.h"
#include "ranks/handshake.h"

namespace millrace {
namespace {

constexpr const char *kLoopback = "127.0.0.1", *kLoopbackNetwork = "127.0.0.0/8";
constexpr const char* kWait = "60";  // seconds until all have met, which is immediate unless one is gone
constexpr int kPatience = 20;        // seconds for a rank to end after a successful run

// Even a stopped rank must not outlive the one that started it.
void end_with(pid_t parent) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::raise(SIGKILL);  // the parent was already gone
}

// waitpid()'s status; 0 if it had to be killed.
int status_of(pid_t child, std::chrono::steady_clock::time_point limit) {
  int status = 0;
  while (::waitpid(child, &status, WNOHANG) == 0) {
    if (std::chrono::steady_clock::now() > limit) {
      ::kill(child, SIGKILL);
      ::waitpid(child, nullptr, 0);
      return 0;
    }
    ::usleep(10'000);
  }
  return status;
}

}  // namespace

StartedRanks::StartedRanks(int count, RankWishes& wishes) {
  if (count == 1) return;
  Socket listener = listen_at(kLoopback, 0);
  place_ = {.ranks = count, .master = local_endpoint(listener).text(), .source = fmt::format("--processes {}", count)};
  wishes.interface = kLoopbackNetwork;
  wishes.key = random_key();
  wishes.wait = kWait;
  const pid_t parent = ::getpid();
  for (int rank = 1; rank < count; ++rank) {
    const pid_t child = ::fork();
    if (child < 0) fail(ErrorKind::run, "cannot start process {} of {}: {}", rank, count, std::strerror(errno));
    if (child == 0) {
      end_with(parent);
      place_.rank = rank;
      children_.clear();
      return;
    }
    children_.push_back(child);
  }
  wishes.listener = listener.release();
  wishes.lost = [this] { return lost(); };
}

// Leaves the status to end().
std::string StartedRanks::lost() const {
  for (std::size_t i = 0; i < children_.size(); ++i) {
    siginfo_t ended{};
    if (::waitid(P_PID, static_cast<id_t>(children_[i]), &ended, WEXITED | WNOHANG | WNOWAIT) != 0 || ended.si_pid == 0) continue;
    return fmt::format("rank {} {} before the ranks had met", i + 1,
                       ended.si_code == CLD_EXITED
                           ? fmt::format("ended with exit code {}", ended.si_status)
                           : fmt::format("was killed by signal {} ({})", ended.si_status, ::strsignal(ended.si_status)));
  }
  return {};
}

StartedRanks::~StartedRanks() { end(kPatience); }

int StartedRanks::end(int patience) {
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(patience);
  int signal = 0;
  for (int rank = 1; !children_.empty(); ++rank) {
    const int status = status_of(children_.front(), limit);
    children_.erase(children_.begin());
    if (WIFSIGNALED(status)) {
      print_to_stderr("rank {} was killed by signal {}: {}\n", rank, WTERMSIG(status), ::strsignal(WTERMSIG(status)));
    }
    for (const int each : {SIGHUP, SIGINT, SIGTERM, SIGXCPU}) {
      if (WIFEXITED(status) && WEXITSTATUS(status) == 128 + each) signal = each;
    }
  }
  return signal;
}

}  // namespace millrace

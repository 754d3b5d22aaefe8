#include "ranks/processes.h"

#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>

#include "millrace/error.h"

namespace millrace {
namespace {

constexpr int kPatience = 20;  // seconds for a process to end

using Pair = std::array<int, 2>;

std::string fate_of(int status) {
  if (WIFSIGNALED(status)) return fmt::format("was killed by signal {}", WTERMSIG(status));
  return fmt::format("ended with exit code {}", WEXITSTATUS(status));
}

}  // namespace

Processes::Processes(int size) : size_(size), sockets_(static_cast<std::size_t>(size), -1) {
  const auto count = static_cast<std::size_t>(size);
  std::vector<std::vector<Pair>> pairs(count, std::vector<Pair>(count, Pair{-1, -1}));  // [low][high]: {low's end, high's end}
  for (std::size_t low = 0; low < count; ++low) {
    for (std::size_t high = low + 1; high < count; ++high) {
      if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pairs[low][high].data()) != 0) {
        fail(ErrorKind::run, "no sockets for {} processes: {}", size, std::strerror(errno));
      }
    }
  }
  for (int rank = 1; rank < size; ++rank) {
    const pid_t child = ::fork();
    if (child < 0) fail(ErrorKind::run, "process {} of {} cannot be made: {}", rank, size, std::strerror(errno));
    if (child == 0) {
      // A process that was stopped would stay when the first one is killed. It goes on instead, finds that peer lost, and ends.
      ::prctl(PR_SET_PDEATHSIG, SIGCONT);
      rank_ = rank;
      children_.clear();
      break;
    }
    children_.push_back(child);
  }
  statuses_.resize(children_.size());
  const auto mine = static_cast<std::size_t>(rank_);
  for (std::size_t low = 0; low < count; ++low) {
    for (std::size_t high = low + 1; high < count; ++high) {
      const Pair& ends = pairs[low][high];
      if (low == mine) sockets_[high] = ends[0];
      if (high == mine) sockets_[low] = ends[1];
      if (low != mine) ::close(ends[0]);
      if (high != mine) ::close(ends[1]);
    }
  }
}

Processes::~Processes() {
  for (std::size_t i = 0; i < children_.size(); ++i) {
    for (int attempt = 0; fate(static_cast<int>(i) + 1).empty() && attempt < kPatience; ++attempt) continue;
    if (statuses_[i]) continue;
    ::kill(children_[i], SIGKILL);
    ::waitpid(children_[i], nullptr, 0);
  }
}

std::string Processes::fate(int rank) const {
  const Lock lock(mutex_);
  const auto at = static_cast<std::size_t>(rank) - 1;
  if (at >= children_.size()) return {};
  for (int attempt = 0; !statuses_[at] && attempt < 100; ++attempt) {
    int status = 0;
    if (::waitpid(children_[at], &status, WNOHANG) == children_[at]) {
      statuses_[at] = status;
    } else {
      ::usleep(10'000);
    }
  }
  return statuses_[at] ? fate_of(*statuses_[at]) : "";
}

int Processes::stop_signal() const {
  const Lock lock(mutex_);
  for (const std::optional<int> status : statuses_) {
    if (!status || !WIFEXITED(*status)) continue;
    for (const int signal : {SIGHUP, SIGINT, SIGTERM, SIGXCPU}) {
      if (WEXITSTATUS(*status) == 128 + signal) return signal;
    }
  }
  return 0;
}

}  // namespace millrace

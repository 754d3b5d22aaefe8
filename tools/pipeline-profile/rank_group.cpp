#include "rank_group.h"

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>

#include "millrace/error.h"

namespace millrace {
namespace {

constexpr char kResult = '=', kMistake = '!';  // the first byte of a process's message; the second byte of an error is its kind

void write_all(int file, const std::string& text) {
  for (std::size_t at = 0; at < text.size();) {
    const ssize_t written = ::write(file, text.data() + at, text.size() - at);
    if (written < 0 && errno != EINTR) return;  // the reader is gone
    if (written > 0) at += static_cast<std::size_t>(written);
  }
}

std::string read_all(int file) {
  std::string text;
  std::array<char, 4096> part;
  for (ssize_t got = 1; got > 0 || (got < 0 && errno == EINTR);) {
    got = ::read(file, part.data(), part.size());
    if (got > 0) text.append(part.data(), static_cast<std::size_t>(got));
  }
  return text;
}

std::string mistake_text(const Error& error) { return {kMistake, static_cast<char>('0' + static_cast<int>(error.kind()))}; }

// Runs in the new process, and in the ranks that it starts.
void work_and_leave(int ranks, Leave leave, const std::function<std::string(Group*)>& work, int to) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  std::string reply;
  bool speaks = true;
  try {
    RankGroup all(ranks);
    speaks = all.is_first();
    try {
      reply = kResult + work(all.group());
    } catch (...) {
      const Error error = current_error();
      if (all.group() != nullptr) all.group()->leave(&error);
      throw;
    }
  } catch (...) {
    const Error error = current_error();
    reply = mistake_text(error) + error.what();
  }
  if (speaks) write_all(to, reply);
  leave(0);
}

}  // namespace

RankGroup::RankGroup(int processes) {
  if (processes <= 1) return;
  RankWishes wishes;
  started_.emplace(processes, wishes);
  try {
    group_.emplace(join_ranks(started_->place(), wishes, {}, true));
  } catch (const Error&) {
    started_->end(0);  // ranks that are still looking for the others
    throw;
  }
}

RankGroup::RankGroup(const RankPlace& place, const RankWishes& wishes) {
  if (place.ranks > 1) group_.emplace(join_ranks(place, wishes, {}, false));
}

std::string run_apart(int ranks, Leave leave, const std::function<std::string(Group* group)>& work) {
  std::array<int, 2> ends{};
  if (::pipe(ends.data()) != 0) fail(ErrorKind::run, "no pipe to another process: {}", std::strerror(errno));
  std::fflush(nullptr);  // otherwise the copy would print it again
  const pid_t child = ::fork();
  if (child == 0) {
    ::close(ends[0]);
    work_and_leave(ranks, leave, work, ends[1]);
  }
  ::close(ends[1]);
  const std::string reply = child < 0 ? std::string() : read_all(ends[0]);
  ::close(ends[0]);
  if (child < 0) fail(ErrorKind::run, "cannot start a measuring process: {}", std::strerror(errno));
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
  if (reply.starts_with(kResult)) return reply.substr(1);
  if (reply.size() > 2) throw Error(static_cast<ErrorKind>(reply[1] - '0'), reply.substr(2));
  fail(ErrorKind::run, "the measuring process {} before it was done",
       WIFSIGNALED(status) ? fmt::format("was killed by signal {}", WTERMSIG(status)) : std::string("ended"));
}

}  // namespace millrace

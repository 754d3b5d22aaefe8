#include "testkit/apart.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "base/waited_time.h"
#include "millrace/error.h"

namespace millrace::testkit {
namespace {

// A pipe that closes its ends when destroyed.
class Channel {
 public:
  Channel() {
    if (::pipe2(ends_.data(), O_CLOEXEC) != 0) fail(ErrorKind::run, "no pipe: {}", std::strerror(errno));
    ::fcntl(ends_[0], F_SETFL, O_NONBLOCK);
  }
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;
  ~Channel() {
    ::close(ends_[0]);
    close_in();
  }
  int in() const { return ends_[1]; }
  int out() const { return ends_[0]; }
  void close_in() {
    if (ends_[1] >= 0) ::close(ends_[1]);
    ends_[1] = -1;
  }
  void drain(std::string& text) const {
    char some[4096];
    for (ssize_t count = 0; (count = ::read(ends_[0], some, sizeof some)) > 0;)
      text.append(some, static_cast<std::size_t>(count));
  }

 private:
  std::array<int, 2> ends_{-1, -1};
};

void write_all(int file, const std::string& text) {
  for (std::size_t done = 0; done < text.size();) {
    const ssize_t count = ::write(file, text.data() + done, text.size() - done);
    if (count <= 0) return;
    done += static_cast<std::size_t>(count);
  }
}

// Runs in the child. A result ends with a zero byte, which is missing if the process ended earlier.
[[noreturn]] void work_and_leave(const std::function<std::string()>& work, const Channel& result, const Channel& said,
                                 Leave leave) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  const rlimit no_core{0, 0};
  ::setrlimit(RLIMIT_CORE, &no_core);
  ::dup2(said.in(), STDOUT_FILENO);
  ::dup2(said.in(), STDERR_FILENO);
  try {
    std::string text = work();
    text.push_back('\0');
    write_all(result.in(), text);
  } catch (...) {
    std::abort();  // must not continue in this process
  }
  if (leave == Leave::in_order) std::exit(0);
  ::_exit(0);
}

std::string last_line(std::string said) {
  while (!said.empty() && said.back() == '\n') said.pop_back();
  const std::size_t begin = said.rfind('\n');
  const std::string line = begin == std::string::npos ? said : said.substr(begin + 1);
  return line.empty() ? "" : fmt::format(": {}", line);
}

std::string fate_of(int status, bool returned, const std::string& said) {
  if (WIFSIGNALED(status)) {
    return fmt::format("ended with signal {} ({}){}", WTERMSIG(status), ::strsignal(WTERMSIG(status)), last_line(said));
  }
  if (returned && WEXITSTATUS(status) == 0) return {};
  return fmt::format("ended the process with exit code {}{}", WEXITSTATUS(status), last_line(said));
}

}  // namespace

Ended run_apart(const std::function<std::string()>& work, double seconds, Leave leave) {
  Channel result, said;
  std::fflush(nullptr);  // else the child writes it again
  const pid_t child = ::fork();
  if (child < 0) fail(ErrorKind::run, "no process can be made: {}", std::strerror(errno));
  if (child == 0) work_and_leave(work, result, said, leave);
  result.close_in();
  said.close_in();
  Ended ended;
  std::string words;
  int status = 0;
  WaitedTime waited;
  while (::waitpid(child, &status, WNOHANG) == 0) {
    if (waited.seconds() > seconds) {
      ended.in_time = false;
      ::kill(child, SIGKILL);
      ::waitpid(child, &status, 0);
      break;
    }
    std::array<pollfd, 2> files{pollfd{result.out(), POLLIN, 0}, pollfd{said.out(), POLLIN, 0}};
    ::poll(files.data(), files.size(), 2);
    result.drain(ended.result);
    said.drain(words);
  }
  result.drain(ended.result);
  said.drain(words);
  const bool returned = !ended.result.empty() && ended.result.back() == '\0';
  if (returned) ended.result.pop_back();
  ended.fate =
      ended.in_time ? fate_of(status, returned, words) : fmt::format("did not end within {} s{}", seconds, last_line(words));
  return ended;
}

}  // namespace millrace::testkit

#include "common/second_signal.h"

#include <poll.h>
#include <unistd.h>

#include <cstring>

namespace millrace {

void say_second_signal(const char* program) noexcept {
  pollfd taker{STDERR_FILENO, POLLOUT, 0};
  if (::poll(&taker, 1, 0) != 1 || taker.revents != POLLOUT) return;
  for (const char* const text : {"\n", program, ": stopped at once by a second signal; nothing more was saved\n"}) {
    if (::write(STDERR_FILENO, text, std::strlen(text)) < 0) return;
  }
}

}  // namespace millrace

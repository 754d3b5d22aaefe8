// What is said when a plugin ends the process: by a crash or by exit(). It names the stage that ran on the thread.
#pragma once

namespace millrace {

// While it lives, exit() ends the process by `leave(1)`, and signals of crashes still end it as they do by default; both are
// reported on standard error first. One at a time.
class LastWords {
 public:
  explicit LastWords(void (*leave)(int code));
  ~LastWords();
  LastWords(const LastWords&) = delete;
  LastWords& operator=(const LastWords&) = delete;
};

}  // namespace millrace

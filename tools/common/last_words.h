// What a program says when a plugin ends the process, by a crash or by exit(), or keeps it waiting while it is loaded. It names
// the plugin, or the stage that ran on the thread.
#pragma once

namespace millrace {

class Registry;

// While it lives, exit() ends the process with code 1, and signals of crashes still end it as they do by default; both are
// reported on standard error first. One at a time.
class LastWords {
 public:
  explicit LastWords(const char* program);  // a literal
  ~LastWords();
  LastWords(const LastWords&) = delete;
  LastWords& operator=(const LastWords&) = delete;

  // What _exit() says: async-signal-safe. False, and nothing is said, when none lives or after none().
  static bool of_plain_exit() noexcept;
  static void of_exit() noexcept;  // what exit() says, and ends the process then; returns when there is nothing to say
  static void none() noexcept;     // the program ends itself
};

// Calls load_all_plugins(). Meanwhile SIGHUP, SIGINT and SIGTERM end the process and say which plugin was loaded, and one that
// takes long is named each ten seconds. REQUIRES: a LastWords lives, and the process has one thread.
void load_plugins(Registry& registry);

}  // namespace millrace

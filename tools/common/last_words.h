// Messages for when a plugin ends the process, by a crash or by exit(), or blocks while loading. They name the plugin, or the
// stage that ran on the thread.
#pragma once

namespace millrace {

class Registry;

// While it lives, exit() ends the process with code 1, and crash signals still end it by default; both are reported on standard
// error first. One at a time.
class LastWords {
 public:
  explicit LastWords(const char* program);  // a literal
  ~LastWords();
  LastWords(const LastWords&) = delete;
  LastWords& operator=(const LastWords&) = delete;

  // The message of _exit(): async-signal-safe. Returns false without a message if no LastWords lives, or after none().
  static bool of_plain_exit() noexcept;
  static void of_exit() noexcept;  // prints exit()'s message and ends the process; returns if there is nothing to report
  static void none() noexcept;     // the program ends by itself
};

// Calls load_all_plugins(). Meanwhile SIGHUP, SIGINT and SIGTERM end the process with the name of the plugin being loaded, and a
// slow one is named every ten seconds. REQUIRES: a LastWords lives, and the process has one thread.
void load_plugins(Registry& registry);

}  // namespace millrace

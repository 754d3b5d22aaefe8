#include "common/last_words.h"

#include <dlfcn.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <iterator>

#include "common/environment.h"
#include "graph/graph.h"
#include "millrace/plugin.h"
#include "millrace/util/load_plugins.h"
#include "millrace/util/standard_error.h"
#include "plugin/loading.h"
#include "util/crash_stack.h"

namespace millrace {
namespace {

constexpr int kCrashes[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT};

// The C library's err() ends the process by its own exit(). Several threads may do so together: each takes one of the waiting
// handlers.
constexpr int kExits = 64;

std::atomic<bool> has_words{false};         // false: nothing to report
std::atomic<const char*> program_name{""};  // the reporting program
std::atomic<pid_t> speaker{0};              // the reporting thread

// Runs no handlers, and bypasses the program's own _exit(), in which other leaving threads wait. Async-signal-safe.
[[noreturn]] void end_process(int code) {
  while (true) ::syscall(SYS_exit_group, code);
}

// True for the first caller. All other threads block here until that one has ended the process, so that they do not cut off its
// message. If the first one fails again while it reports, it returns with false.
bool may_speak() {
  const pid_t self = ::gettid();
  pid_t nobody = 0;
  if (speaker.compare_exchange_strong(nobody, self)) return true;
  while (nobody != self) ::pause();
  return false;
}

// Async-signal-safe.
void say(const char* text) {
  if (::write(STDERR_FILENO, text, std::strlen(text)) < 0) return;
}

void begin_sentence(const char* what) {
  say("\n");
  say(program_name);
  say(": ");
  say(what);
}

void say_where(const char* what) {
  begin_sentence(what);
  if (const char* const path = loading_plugin(); path != nullptr) {
    say(" while plugin '");
    say(path);
    say("' was loaded");
  } else if (const RunningStage stage = running_stage(); stage.name != nullptr) {
    say(" in stage '");
    say(stage.graph);
    say(".");
    say(stage.name);
    say("'");
  }
  say("; `pipeline-inspect --conformance PLUGIN.so` checks a plugin\n");
}

const char* name_of(int signal) {
  switch (signal) {
    case SIGSEGV: return "the process crashed (signal 11, segmentation fault)";
    case SIGBUS: return "the process crashed (signal 7, bus error)";
    case SIGILL: return "the process crashed (signal 4, illegal instruction)";
    case SIGFPE: return "the process crashed (signal 8, arithmetic error)";
    default: return "the process was aborted (signal 6)";
  }
}

void on_crash(int signal) {
  if (has_words && may_speak()) say_where(name_of(signal));
  ::signal(signal, SIG_DFL);
  ::raise(signal);
}

void on_exit() { LastWords::of_exit(); }

}  // namespace

LastWords::LastWords(const char* program) {
  program_name = program;
  has_words = true;
  use_crash_stack();
  for (int i = 0; i < kExits; ++i) std::atexit(on_exit);
  for (const int signal : kCrashes) {
    struct sigaction action {};
    if (::sigaction(signal, nullptr, &action) != 0 || action.sa_handler != SIG_DFL) continue;  // a sanitizer's
    action.sa_handler = on_crash;
    action.sa_flags = SA_NODEFER | SA_ONSTACK;  // the stack may have overflowed
    ::sigaction(signal, &action, nullptr);
  }
}

LastWords::~LastWords() { has_words = false; }

bool LastWords::of_plain_exit() noexcept {
  if (!has_words || !may_speak()) return false;
  say_where("a plugin ended the process by _exit()");
  return true;
}

void LastWords::of_exit() noexcept {
  if (!has_words || !may_speak()) return;
  say_where("a plugin ended the process by exit()");
  end_process(1);
}

void LastWords::none() noexcept { has_words = false; }

namespace {

constexpr unsigned kPatience = 10;  // seconds between messages about a plugin that is still loading
constexpr int kEnds[] = {SIGHUP, SIGINT, SIGTERM};

void say_loading(const char* what, const char* rest) {
  begin_sentence(what);
  if (const char* const path = loading_plugin(); path != nullptr) {
    say(" plugin '");
    say(path);
    say("' was loaded");
  } else {
    say(" plugins were loaded");
  }
  say(rest);
}

void on_alarm(int) {
  say_loading("still waiting while", "\n");
  ::alarm(kPatience);
}

void on_end(int signal) {
  if (!has_words || !may_speak()) return;
  say_loading("stopped while", "; there was nothing to save\n");
  end_process(128 + signal);
}

// While it lives, SIGHUP, SIGINT and SIGTERM end the process with the name of the plugin being loaded, and a slow one is named
// every ten seconds.
class LoadingWords {
 public:
  LoadingWords();
  ~LoadingWords();
  LoadingWords(const LoadingWords&) = delete;
  LoadingWords& operator=(const LoadingWords&) = delete;

 private:
  struct sigaction before_[std::size(kEnds)]{};
  sigset_t mask_{};
};

LoadingWords::LoadingWords() {
  sigset_t set;
  sigemptyset(&set);
  for (std::size_t i = 0; i < std::size(kEnds); ++i) {
    struct sigaction action {};
    ::sigaction(kEnds[i], nullptr, &before_[i]);
    if (before_[i].sa_handler == SIG_IGN) continue;  // NOLINT: the system's union
    action.sa_handler = on_end;
    ::sigaction(kEnds[i], &action, nullptr);
    sigaddset(&set, kEnds[i]);
  }
  ::signal(SIGALRM, on_alarm);
  ::alarm(kPatience);
  ::pthread_sigmask(SIG_UNBLOCK, &set, &mask_);
}

LoadingWords::~LoadingWords() {
  ::pthread_sigmask(SIG_SETMASK, &mask_, nullptr);
  ::alarm(0);
  ::signal(SIGALRM, SIG_DFL);
  for (std::size_t i = 0; i < std::size(kEnds); ++i) ::sigaction(kEnds[i], &before_[i], nullptr);
}

}  // namespace

void load_plugins(Registry& registry) {
  for (const std::string& line : misspelt_variables(environ)) print_to_stderr("warning: {}\n", line);
  const LoadingWords loading;
  load_all_plugins(registry);
  // The only hint that another plugin's type replaces the intended one.
  for (const std::string& reason : load_errors(registry)) {
    if (reason.find(" is registered already") != std::string::npos ||
        reason.find(" is loaded already from ") != std::string::npos)
      print_to_stderr("warning: skipped: {}\n", reason);
  }
}

}  // namespace millrace

// If a plugin calls the C library's _exit(), the process ends silently, since no handler runs; if it calls exit(), static objects
// are destroyed while other threads still use them. So each program defines both, and plugins resolve these before the C
// library's (millrace_add_tool() exports them). Sanitizers have their own.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
extern "C" __attribute__((visibility("default"))) void _exit(int code) {  // NOLINT: the C library's name
  const bool is_early = millrace::LastWords::of_plain_exit();
  millrace::end_process(is_early && code == 0 ? 1 : code);
}

extern "C" __attribute__((visibility("default"))) void exit(int code) noexcept {  // NOLINT: the C library's name
  millrace::LastWords::of_exit();
  const auto real = reinterpret_cast<void (*)(int)>(::dlsym(RTLD_NEXT, "exit"));  // NOLINT: dlsym returns a void*
  if (real != nullptr) real(code);
  millrace::end_process(code);
}
#endif

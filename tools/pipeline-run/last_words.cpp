#include "last_words.h"

#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <cstring>

#include "graph/graph.h"

namespace millrace {
namespace {

constexpr int kCrashes[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT};

// As many threads may call exit() together: each takes one of the handlers that wait.
constexpr int kExits = 64;

std::atomic<void (*)(int)> leave_by{nullptr};  // null: there is nothing to say
std::atomic<pid_t> speaker{0};                 // the thread that says it

// True for the first thread that asks. Every other one stays here until that one has ended the process: it shall not end it in
// the middle of a sentence. The first one comes back, with false, where it fails a second time while it speaks.
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

void say_where(const char* what) {
  say("\npipeline-run: ");
  say(what);
  if (const RunningStage stage = running_stage(); stage.name != nullptr) {
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
  if (leave_by != nullptr && may_speak()) say_where(name_of(signal));
  ::signal(signal, SIG_DFL);
  ::raise(signal);
}

void on_exit() {
  const auto leave = leave_by.load();
  if (leave == nullptr || !may_speak()) return;
  say_where("a plugin ended the process by exit()");
  leave(1);
}

}  // namespace

LastWords::LastWords(void (*leave)(int code)) {
  leave_by = leave;
  for (int i = 0; i < kExits; ++i) std::atexit(on_exit);
  for (const int signal : kCrashes) {
    struct sigaction action {};
    if (::sigaction(signal, nullptr, &action) != 0 || action.sa_handler != SIG_DFL) continue;  // a sanitizer's
    action.sa_handler = on_crash;
    action.sa_flags = SA_NODEFER;
    ::sigaction(signal, &action, nullptr);
  }
}

LastWords::~LastWords() { leave_by = nullptr; }

}  // namespace millrace

#include "library_fault.h"

#include <fmt/format.h>

#include <array>
#include <csetjmp>
#include <csignal>
#include <cstring>
#include <mutex>

namespace millrace::cpu {
namespace {

constexpr std::array kFaults = {SIGSEGV, SIGBUS, SIGFPE, SIGILL};

thread_local sigjmp_buf* way_back = nullptr;  // set in the thread that calls a library
std::array<struct sigaction, kFaults.size()> earlier_actions;

void restore() {
  for (std::size_t i = 0; i < kFaults.size(); ++i) ::sigaction(kFaults[i], &earlier_actions[i], nullptr);
}

// Another thread's fault is raised again for its previous handler.
void on_fault(int signal) {
  if (way_back == nullptr) return restore();
  siglongjmp(*way_back, signal);
}

class Handlers {
 public:
  Handlers() {
    struct sigaction ours {};
    ours.sa_handler = on_fault;
    ours.sa_flags = SA_ONSTACK;
    for (std::size_t i = 0; i < kFaults.size(); ++i) ::sigaction(kFaults[i], &ours, &earlier_actions[i]);
  }
  Handlers(const Handlers&) = delete;
  Handlers& operator=(const Handlers&) = delete;
  ~Handlers() {
    way_back = nullptr;
    restore();
  }
};

}  // namespace

std::string library_fault(const std::function<void()>& call) {
  static std::mutex one_at_a_time;
  const std::lock_guard lock(one_at_a_time);
  const Handlers handlers;
  sigjmp_buf here;
  const int signal = sigsetjmp(here, 1);
  if (signal != 0) return fmt::format("crashes with signal {} ({})", signal, ::strsignal(signal));
  way_back = &here;
  call();
  return {};
}

}  // namespace millrace::cpu

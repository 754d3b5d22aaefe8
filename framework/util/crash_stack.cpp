#include "util/crash_stack.h"

#include <csignal>
#include <cstddef>
#include <cstdlib>

namespace millrace {
namespace {

constexpr std::size_t kBytes = std::size_t{64} << 10;

struct CrashStack {
  void* memory = nullptr;
  CrashStack() {
    stack_t there{};
    if (::sigaltstack(nullptr, &there) != 0 || (there.ss_flags & SS_DISABLE) == 0) return;
    memory = std::malloc(kBytes);
    if (memory == nullptr) return;
    stack_t made{};
    made.ss_sp = memory;
    made.ss_size = kBytes;
    ::sigaltstack(&made, nullptr);
  }
  CrashStack(const CrashStack&) = delete;
  CrashStack& operator=(const CrashStack&) = delete;
  ~CrashStack() {
    if (memory == nullptr) return;
    stack_t none{};
    none.ss_flags = SS_DISABLE;
    ::sigaltstack(&none, nullptr);
    std::free(memory);
  }
};

}  // namespace

void use_crash_stack() noexcept { thread_local const CrashStack stack; }

}  // namespace millrace

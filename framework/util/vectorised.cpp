#include "millrace/kernels/vectorised.h"

#include <atomic>

namespace millrace {
namespace {

InstructionSet best() {
#if defined(__x86_64__)
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  if (avx512 && avx2) return __builtin_cpu_supports("avx512bf16") ? InstructionSet::avx512_bf16 : InstructionSet::avx512;
  if (avx2) return InstructionSet::avx2;
#endif
  return InstructionSet::plain;
}

std::atomic<InstructionSet>& chosen() {
  static std::atomic<InstructionSet> set = best();
  return set;
}

}  // namespace

InstructionSet instruction_set() { return chosen().load(std::memory_order_relaxed); }

bool use_instruction_set(InstructionSet set) {
  if (set > best()) return false;
  chosen().store(set, std::memory_order_relaxed);
  return true;
}

}  // namespace millrace

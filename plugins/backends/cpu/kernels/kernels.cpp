#include "kernels/kernels.h"

#include <cmath>
#include <memory>
#include <new>

#define MILLRACE_ISA avx2
#include "kernels/isa/isa.h"
#undef MILLRACE_ISA

namespace millrace::cpu {
namespace {

struct Choice {
  const Kernels* usable[4] = {};  // best first, null-terminated

  Choice() {
    std::size_t count = 0;
    const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
    if (avx512 && __builtin_cpu_supports("avx512bf16")) usable[count++] = &avx512_bf16::kTable;
    if (avx512) usable[count++] = &avx512::kTable;
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) usable[count++] = &avx2::kTable;
  }
};
const Choice& choice() {
  static const Choice made;
  return made;
}

}  // namespace

const char* kernels_unavailable_reason() {
  return choice().usable[0] == nullptr ? "the processor has neither AVX-512 nor AVX2, which the kernels need" : nullptr;
}
const Kernels& kernels() { return *choice().usable[0]; }
const Kernels* const* all_kernels() { return choice().usable; }

double* scratch(std::size_t count) {
  struct Deleter {
    void operator()(double* memory) const { ::operator delete[](memory, std::align_val_t{64}); }
  };
  thread_local std::unique_ptr<double[], Deleter> memory;
  thread_local std::size_t capacity = 0;
  if (count > capacity) {
    memory.reset();
    memory.reset(static_cast<double*>(::operator new[](count * sizeof(double), std::align_val_t{64})));
    capacity = count;
  }
  return memory.get();
}

void update_running(const float* mean, const float* variance, std::int64_t channels, double count, double momentum,
                    float* running_mean, float* running_variance) {
  const double unbiased = count > 1 ? count / (count - 1) : 1;
  for (std::int64_t c = 0; c < channels; ++c) {
    if (!std::isfinite(mean[c]) || !std::isfinite(variance[c])) continue;  // they would stay non-finite for the rest of the run
    running_mean[c] = static_cast<float>((1 - momentum) * running_mean[c] + momentum * mean[c]);
    running_variance[c] = static_cast<float>((1 - momentum) * running_variance[c] + momentum * unbiased * variance[c]);
  }
}

}  // namespace millrace::cpu

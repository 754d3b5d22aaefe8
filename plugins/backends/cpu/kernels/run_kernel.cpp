#include "kernels/run_kernel.h"

#include <omp.h>

namespace millrace::cpu {

void run_kernel(const Kernel& kernel, const void* element) {
  const std::int64_t units = kernel.units(element);
  if (units == 1) return kernel.run_on_host(element, 0, 1);
#pragma omp parallel
  {
    const std::int64_t threads = omp_get_num_threads(), thread = omp_get_thread_num();
    kernel.run_on_host(element, units * thread / threads, units * (thread + 1) / threads);
  }
}

}  // namespace millrace::cpu

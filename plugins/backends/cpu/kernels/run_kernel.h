// Runs plugins' kernels on this backend's threads.
#pragma once

#include "millrace/kernels/kernel.h"

namespace millrace::cpu {

// Runs an element of the kernel on the caller's OpenMP team.
void run_kernel(const Kernel& kernel, const void* element);

inline constexpr auto run_element = [](const Kernel& kernel, const auto& element) { run_kernel(kernel, &element); };

}  // namespace millrace::cpu

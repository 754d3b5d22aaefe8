// Actions at the end of each test of this program (finished_tests.cpp).
#pragma once

#include <string>

namespace millrace::gpu {

// The exit status of a test program that ended itself after a failed test because its device no longer responds: CUDA keeps some
// errors for the life of a process, and every later test would fail.
inline constexpr int kDeviceLost = 4;

// Waits for the device. Empty if it responds. Defined by each program with finished_tests.cpp.
std::string why_device_is_lost();

}  // namespace millrace::gpu

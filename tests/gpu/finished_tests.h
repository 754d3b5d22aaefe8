// What happens when a test of this program ends (finished_tests.cpp).
#pragma once

#include <string>

namespace millrace::gpu {

// The exit status of a test program that ended itself after a failed test, because its device answers no more: CUDA keeps some
// errors for the rest of a process, and every later test would fail with them.
inline constexpr int kDeviceLost = 4;

// Waits for the device. Empty: it answers. Each program with finished_tests.cpp in it says how that is asked.
std::string why_device_is_lost();

}  // namespace millrace::gpu

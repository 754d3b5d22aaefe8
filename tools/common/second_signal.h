// Handles a second signal to a tool.
#pragma once

#include <chrono>

namespace millrace {

// `timeout` sends its signal twice, to the program and to the program's group. The same signal within this time of the first
// counts as the same request.
inline constexpr std::chrono::milliseconds kSameRequest{200};

// Prints to standard error that `program` ends at once; prints nothing if that would block. Async-signal-safe.
void say_second_signal(const char* program) noexcept;

}  // namespace millrace

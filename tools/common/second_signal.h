// What a tool does when a signal comes a second time.
#pragma once

#include <chrono>

namespace millrace {

// `timeout` sends its signal twice, to the program and to the program's group. The same signal within this time of the first one
// is the same request.
inline constexpr std::chrono::milliseconds kSameRequest{200};

// Says on standard error that `program` ends at once. Says nothing where that would have to wait for a reader. Async-signal-safe.
void say_second_signal(const char* program) noexcept;

}  // namespace millrace

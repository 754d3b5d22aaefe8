// The message of Errors made from out-of-memory exceptions: current_error().
#pragma once

#include "millrace/error.h"

namespace millrace {

inline constexpr const char* kOutOfMemory = "out of memory";
inline constexpr const char* kNoThread =
    "the system cannot start another thread: memory for its stack is lacking, or too many run (ulimit -u)";

inline bool lacks_memory(const Error& error) { return error.message() == kOutOfMemory || error.message() == kNoThread; }

}  // namespace millrace

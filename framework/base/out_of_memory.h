// The message of Errors made from out-of-memory exceptions: current_error().
#pragma once

#include "millrace/error.h"

namespace millrace {

inline constexpr const char* kOutOfMemory = "out of memory";
inline constexpr const char* kNoThread =
    "the system starts no more threads: there is no memory for a stack, or too many run (ulimit -u)";

inline bool lacks_memory(const Error& error) { return error.message() == kOutOfMemory || error.message() == kNoThread; }

}  // namespace millrace

// A stack for handlers of signals, so that a thread whose own stack has overflown can still say so.
#pragma once

namespace millrace {

// Gives the calling thread such a stack until the thread ends. Does nothing if the thread has one, as under a sanitizer, or if
// there is no memory.
void use_crash_stack() noexcept;

}  // namespace millrace

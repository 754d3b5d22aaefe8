// A stack for signal handlers, so that a thread whose own stack has overflowed can still report it.
#pragma once

namespace millrace {

// Gives the calling thread an alternate signal stack until it ends. Does nothing if the thread has one, as under a sanitizer, or
// if memory runs out.
void use_crash_stack() noexcept;

}  // namespace millrace

// A stack for handlers of signals, so that a thread whose own stack has overflown can still say so.
#pragma once

namespace millrace {

// Of the calling thread, to its end. Does nothing where the thread has one, as under a sanitizer, or where there is no memory.
void use_crash_stack() noexcept;

}  // namespace millrace

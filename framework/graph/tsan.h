// Annotations for ThreadSanitizer. Debian's oneTBB is built without it, so it cannot see that a put happens before the body that
// takes the message, or that all bodies happen before wait_for_all() returns. These declare exactly that: a packet's payload
// carries the order from put to body, the Core from bodies to wait. Empty in other builds.
#pragma once

#if defined(__SANITIZE_THREAD__)
#include <sanitizer/tsan_interface.h>
// For reading oneTBB's messages before the order can be declared.
#define MILLRACE_UNSEEN_BY_TSAN __attribute__((no_sanitize("thread")))
#else
#define MILLRACE_UNSEEN_BY_TSAN
#endif

namespace millrace::flow {

inline void released([[maybe_unused]] const void* object) {
#if defined(__SANITIZE_THREAD__)
  __tsan_release(const_cast<void*>(object));
#endif
}

inline void acquired([[maybe_unused]] const void* object) {
#if defined(__SANITIZE_THREAD__)
  __tsan_acquire(const_cast<void*>(object));
#endif
}

}  // namespace millrace::flow

#pragma once

// Before a function whose loops over bytes gain from wider registers: it is compiled for AVX2 as well, and the processor chooses.
// The results are the same bits. Left out where the compiler has no such thing, and beside sanitizers, which start too late for
// it.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__)
#define MILLRACE_WIDE __attribute__((target_clones("avx2", "default")))
#else
#define MILLRACE_WIDE
#endif

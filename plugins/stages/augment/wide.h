#pragma once

// Put before a function whose byte loops gain from wider registers: compiles it for AVX2 as well and chooses at run time, with
// bit-identical results. Empty for compilers without this feature and under sanitizers, which initialise too late for it.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__)
#define MILLRACE_WIDE __attribute__((target_clones("avx2", "default")))
#else
#define MILLRACE_WIDE
#endif

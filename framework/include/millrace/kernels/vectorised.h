// Compiles loops for several instruction sets.
//
//   vectorised([&]() MILLRACE_INLINED {
//     for (std::int64_t i = 0; i < count; ++i) y[i] = kernel(x[i]);
//   });
//
// The body is compiled once for each instruction set, together with every MILLRACE_KERNEL function and MILLRACE_INLINED lambda
// that it calls. Compile with -fno-math-errno -fno-trapping-math, as millrace_add_plugin(... KERNELS ...) does: the loops then
// vectorise.
#pragma once

#define MILLRACE_INLINED __attribute__((always_inline))

namespace millrace {

// With avx512_bf16, vectorised() behaves as for avx512; see bf16_each.h.
enum class InstructionSet { plain, avx2, avx512, avx512_bf16 };

// The set that vectorised() uses: the best of this processor, or the one set by use_instruction_set().
InstructionSet instruction_set();
// For tests and benchmarks. Returns false, changing nothing, if the processor does not support the set. REQUIRES: no kernels are
// running.
bool use_instruction_set(InstructionSet set);

#if defined(__x86_64__) && !defined(__CUDA_ARCH__)
#if defined(__clang__)
#define MILLRACE_AVX512_TARGET "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma"
#else
#define MILLRACE_AVX512_TARGET "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,prefer-vector-width=512"
#endif
#define MILLRACE_AVX512 __attribute__((target(MILLRACE_AVX512_TARGET), flatten))
#define MILLRACE_AVX2 __attribute__((target("avx2,fma"), flatten))
#if !defined(__CUDACC__)
#define MILLRACE_AVX512_BF16 __attribute__((target("avx512bf16," MILLRACE_AVX512_TARGET), flatten))
#endif
#else
#define MILLRACE_AVX512
#define MILLRACE_AVX2
#endif

namespace detail {

template <class Body>
MILLRACE_AVX512 void run_avx512(const Body& body) {
  body();
}
template <class Body>
MILLRACE_AVX2 void run_avx2(const Body& body) {
  body();
}

}  // namespace detail

template <class Body>
void vectorised(const Body& body) {
  switch (instruction_set()) {
    case InstructionSet::avx512_bf16:
    case InstructionSet::avx512: return detail::run_avx512(body);
    case InstructionSet::avx2: return detail::run_avx2(body);
    case InstructionSet::plain: return body();
  }
}

}  // namespace millrace

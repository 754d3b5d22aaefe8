#include "kernels/isa/isa.h"

#define MILLRACE_TEXT_OF(name) #name
#define MILLRACE_TEXT(name) MILLRACE_TEXT_OF(name)

namespace millrace::cpu::MILLRACE_ISA {

constinit const Kernels kTable{
    .instruction_set = MILLRACE_TEXT(MILLRACE_ISA),
    .batch_statistics = batch_statistics,
    .normalise = normalise,
    .normalise_backward_sums = normalise_backward_sums,
    .normalise_backward = normalise_backward,
    .normalise_backward_unpool = normalise_backward_unpool,
    .max_pool = max_pool,
    .max_pool_backward = max_pool_backward,
    .average_pool = average_pool,
    .average_pool_backward = average_pool_backward,
    .activate = activate,
    .activate_backward = activate_backward,
    .add = add,
    .scale = scale,
    .fill_zero = fill_zero,
    .blend = blend,
    .sum = sum,
    .to_bf16 = to_bf16,
    .to_f32 = to_f32,
};

}  // namespace millrace::cpu::MILLRACE_ISA

#include "questions.h"

namespace millrace::gpu {
namespace {

// Seconds together: about 70 where all of them use theirs up.
constexpr Question kQuestions[] = {
    {"device", "which device, how long it takes to open, its clocks", 3, false, &ask_device},
    {"dgrad_beta", "data gradient with beta = 1: engines, times, numbers", 5, true, &ask_gradient_beta},
    {"genstats", "convolution with statistics, bf16 and fp16: engines, times, numbers", 6, true, &ask_statistics},
    {"events", "waits for events that a recording sets, over 200 launches", 2, false, &ask_events},
    {"dgrad_add", "data gradient + another tensor: engines, times, numbers", 6, true, &ask_gradient_add},
    {"wgrad_f32", "weight gradient in float32 from bf16: engines, times, numbers", 4, true, &ask_weight_gradient},
    {"epilogues", "convolution, bias, ReLU or GELU: engines, times, numbers", 6, true, &ask_epilogues},
    {"nccl_two", "NCCL with two ranks in two processes on the one device", 6, false, &ask_nccl_two},
    {"rates", "matrix products of 8192, copies, clocks under load", 4, false, &ask_rates},
    {"copies", "copies beside kernels and beside each other", 3, false, &ask_copies},
    {"arena", "an arena that grows, and one that does not fit", 4, false, &ask_arena},
    {"launches", "what launches, recordings and events cost", 2, false, &ask_launches},
    {"libraries", "versions, and the time of each library's first use", 3, false, &ask_libraries},
    {"memory", "what taking and giving back memory costs", 2, false, &ask_memory},
    {"scaled_genstats", "scale, bias, ReLU, convolution, statistics: engines, times, numbers", 5, true, &ask_scaled_statistics},
    {"nccl_one", "NCCL with one rank", 4, false, &ask_nccl_one},
    {"nccl_same_host", "what NCCL says of two ranks that it knows to share the device", 4, false, &ask_nccl_same_host},
};

}  // namespace

std::span<const Question> all_questions() { return kQuestions; }

}  // namespace millrace::gpu

// Kernels over all channels of a row: softmax, local response normalisation.
#include "kernels/elements.h"
#include "launch.cuh"

namespace millrace::cuda {

#define MILLRACE_INSTANTIATE_OF(T) \
  MILLRACE_INSTANTIATE(Softmax<T>) \
  MILLRACE_INSTANTIATE(SoftmaxBackward<T>) MILLRACE_INSTANTIATE(Lrn<T>) MILLRACE_INSTANTIATE(LrnBackward<T>)
MILLRACE_INSTANTIATE_OF(float)
MILLRACE_INSTANTIATE_OF(Bf16)

}  // namespace millrace::cuda

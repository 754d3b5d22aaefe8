// Batch normalisation, and the sums over rows.
#include "kernels/elements.h"
#include "launch.cuh"

namespace millrace::cuda {

#define MILLRACE_INSTANTIATE_OF(T)                                                                                         \
  MILLRACE_INSTANTIATE(Moments<T>)                                                                                         \
  MILLRACE_INSTANTIATE(FinishMoments<T>) MILLRACE_INSTANTIATE(Normalise<T>) MILLRACE_INSTANTIATE(NormaliseBackwardSums<T>) \
      MILLRACE_INSTANTIATE(NormaliseBackward<T>) MILLRACE_INSTANTIATE(ColumnSums<T>)
MILLRACE_INSTANTIATE_OF(float)
MILLRACE_INSTANTIATE_OF(Bf16)
MILLRACE_INSTANTIATE(RunningMoments)
MILLRACE_INSTANTIATE(FinishSums)

}  // namespace millrace::cuda

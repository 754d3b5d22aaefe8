// Kernels that gather pixels: ingest and pooling.
#include "kernels/elements.h"
#include "launch.cuh"

namespace millrace::cuda {

#define MILLRACE_INSTANTIATE_OF(T)                                                                                           \
  MILLRACE_INSTANTIATE(Ingest<T>)                                                                                            \
  MILLRACE_INSTANTIATE(MaxPool<T>)                                                                                           \
  MILLRACE_INSTANTIATE(MaxPoolBackward<T>) MILLRACE_INSTANTIATE(WideMaxPool<T>) MILLRACE_INSTANTIATE(WideMaxPoolBackward<T>) \
      MILLRACE_INSTANTIATE(AveragePool<T>) MILLRACE_INSTANTIATE(AveragePoolBackward<T>) MILLRACE_INSTANTIATE(NormaliseMaxPool<T>)
MILLRACE_INSTANTIATE_OF(float)
MILLRACE_INSTANTIATE_OF(Bf16)
MILLRACE_INSTANTIATE(IngestTarget)

}  // namespace millrace::cuda

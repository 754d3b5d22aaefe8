// Element by element: conversions, sums, activations, dropout, the optimizer.
#include "kernels/elements.h"
#include "launch.cuh"
#include "millrace/kernels/matrix_elements.h"

namespace millrace::cuda {

#define MILLRACE_INSTANTIATE_OF(T)                                                                                         \
  MILLRACE_INSTANTIATE(Activate<T>)                                                                                        \
  MILLRACE_INSTANTIATE(ActivateBackward<T>)                                                                                \
  MILLRACE_INSTANTIATE(BiasActivate<T>)                                                                                    \
  MILLRACE_INSTANTIATE(Scale<T>)                                                                                           \
  MILLRACE_INSTANTIATE(Add<T>) MILLRACE_INSTANTIATE(CopyChannels<T>) MILLRACE_INSTANTIATE(Dropout<T>)                      \
      MILLRACE_INSTANTIATE(Flatten<T>) MILLRACE_INSTANTIATE(FlattenBackward<T>) MILLRACE_INSTANTIATE(Unpack<T>)            \
          MILLRACE_INSTANTIATE(AddLogits<T>) MILLRACE_INSTANTIATE(LoadMatrix<T>) MILLRACE_INSTANTIATE(MatrixPolynomial<T>) \
              MILLRACE_INSTANTIATE(StoreMatrix<T>)
MILLRACE_INSTANTIATE_OF(float)
MILLRACE_INSTANTIATE_OF(Bf16)
MILLRACE_INSTANTIATE(SetScalars)
MILLRACE_INSTANTIATE(FloatToBf16)
MILLRACE_INSTANTIATE(Bf16ToFloat)
MILLRACE_INSTANTIATE(SumArrays)
MILLRACE_INSTANTIATE(Blend)
MILLRACE_INSTANTIATE(Swap)

}  // namespace millrace::cuda

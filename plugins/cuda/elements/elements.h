// Every kernel of our own, by name: what a Queue can run.
#pragma once

#include "activation.h"
#include "flatten.h"
#include "ingest.h"
#include "normalise.h"
#include "plain.h"
#include "pool.h"
#include "rows.h"
#include "update.h"

// clang-format off
#define MILLRACE_CUDA_ELEMENTS_OF(X, T)                                                                                     \
  X(Ingest<T>) X(Activate<T>) X(ActivateBackward<T>) X(BiasActivate<T>) X(Moments<T>) X(FinishMoments<T>) X(Normalise<T>)   \
  X(NormaliseBackwardSums<T>) X(NormaliseBackward<T>) X(ColumnSums<T>) X(MaxPool<T>) X(MaxPoolBackward<T>) X(AveragePool<T>) \
  X(WideMaxPool<T>) X(WideMaxPoolBackward<T>) X(AveragePoolBackward<T>) X(Scale<T>) X(Add<T>) X(CopyChannels<T>)            \
  X(Flatten<T>) X(FlattenBackward<T>) X(Dropout<T>) X(Softmax<T>) X(SoftmaxBackward<T>) X(Lrn<T>) X(LrnBackward<T>)

#define MILLRACE_CUDA_ELEMENTS(X)                                                                                        \
  MILLRACE_CUDA_ELEMENTS_OF(X, float) MILLRACE_CUDA_ELEMENTS_OF(X, Bf16)                                                 \
  X(RunningMoments) X(FinishSums) X(SetScalars) X(FloatToBf16) X(Bf16ToFloat) X(SumArrays) X(AddLogits) X(CrossEntropy)  \
  X(SumLosses) X(SgdUpdate) X(BlendSlow)
// clang-format on

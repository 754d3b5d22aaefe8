#pragma once

#include "millrace/kernels/window_kernels.h"

namespace millrace::layers {

MILLRACE_KERNELS(CutWindow, PlaceWindow)

}  // namespace millrace::layers

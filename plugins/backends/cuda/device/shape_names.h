// Names of library computations, for messages and the keys of plans.
#pragma once

#include <fmt/format.h>

#include <string>

#include "runtime/machine.h"

namespace millrace::cuda {

// "data gradient of a convolution", if `forward` is "convolution".
inline std::string name_of(ConvolutionShape::Kind kind, const char* forward) {
  switch (kind) {
    case ConvolutionShape::Kind::forward: return forward;
    case ConvolutionShape::Kind::data_gradient: return fmt::format("data gradient of a {}", forward);
    case ConvolutionShape::Kind::weight_gradient: return fmt::format("weight gradient of a {}", forward);
  }
  return forward;
}

// The text after bias: ", relu".
inline const char* suffix_of(Activation activation) {
  switch (activation) {
    case Activation::none: return "";
    case Activation::relu: return ", relu";
    case Activation::gelu: return ", gelu";
  }
  return "";
}

}  // namespace millrace::cuda

#include "product.h"

#include "millrace/error.h"
#include "shape_names.h"

namespace millrace::cuda {
namespace {

using Kind = ConvolutionShape::Kind;
using Of = ProductOperand::Of;

}  // namespace

Product product_of(const LinearShape& s) {
  const ProductOperand x{Of::x, s.type, s.in, s.rows};   // x^T
  const ProductOperand w{Of::w, s.type, s.in, s.out};    // w^T
  const ProductOperand y{Of::y, s.type, s.out, s.rows};  // y^T
  const auto transposed = [](ProductOperand operand) {
    operand.transposed = true;
    return operand;
  };
  Product product;
  switch (s.kind) {
    case Kind::forward:  // y^T = w * x^T
      product = {transposed(w), x, y};
      product.d.type = s.result;
      break;
    case Kind::data_gradient:  // dx^T = w^T * dy^T
      product = {w, y, x};
      break;
    case Kind::weight_gradient:  // dw^T = x^T * dy
      product = {x, transposed(y), w};
      product.d.type = DataType::f32;
      break;
  }
  return product;
}

ProductEpilogue epilogue_of(const LinearShape& shape) {
  ProductEpilogue epilogue;
  if (shape.kind == Kind::forward) {
    const bool together = (!shape.bias || shape.result == DataType::f32) && shape.activation != Activation::gelu;
    epilogue.bias = together && shape.bias;
    epilogue.relu = together && shape.activation == Activation::relu;
    epilogue.all = together;
  } else {
    epilogue.all = true;
  }
  return epilogue;
}

std::string text_of(const LinearShape& s) {
  const bool forward = s.kind == Kind::forward;
  return fmt::format("{} of {} x {} ({}{}) by {} x {}{}{}{}", name_of(s.kind, "product"), s.rows, s.in, to_string(s.type),
                     s.tf32 && s.type == DataType::f32 ? " as tf32" : "", s.out, s.in,
                     forward ? fmt::format(" to {}", to_string(s.result)) : "", forward && s.bias ? ", bias" : "",
                     forward ? suffix_of(s.activation) : "");
}

}  // namespace millrace::cuda

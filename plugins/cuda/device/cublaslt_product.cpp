#include "cublaslt_product.h"

#include "millrace/error.h"

namespace millrace::cuda {
namespace {

using Kind = ConvolutionShape::Kind;
using Of = ProductOperand::Of;

const char* name_of(Kind kind) {
  switch (kind) {
    case Kind::forward: return "product";
    case Kind::data_gradient: return "data gradient of a product";
    case Kind::weight_gradient: return "weight gradient of a product";
  }
  return "product";
}

const char* name_of(Activation activation) {
  switch (activation) {
    case Activation::none: return "";
    case Activation::relu: return ", relu";
    case Activation::gelu: return ", gelu";
  }
  return "";
}

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
  return fmt::format("{} of {} x {} ({}{}) by {} x {}{}{}{}", name_of(s.kind), s.rows, s.in, to_string(s.type),
                     s.tf32 && s.type == DataType::f32 ? " as tf32" : "", s.out, s.in,
                     forward ? fmt::format(" to {}", to_string(s.result)) : "", forward && s.bias ? ", bias" : "",
                     forward ? name_of(s.activation) : "");
}

}  // namespace millrace::cuda

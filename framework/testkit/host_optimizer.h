// An update on the calling thread, in plain loops.
#pragma once

#include "millrace/optimizer.h"

namespace millrace::testkit {

// As a backend does it, with products in double for optimizers of scope `matrix`. Segments of those are matrices in the network's
// order. `submit` runs a kernel; null: whole. UpdateArguments::direction is brought.
void update_on_host(const Optimizer& optimizer, UpdateArguments arguments, const UpdateTime& time,
                    const Optimizer::Submit& submit = nullptr);

// `segment` becomes the only one, a matrix in the network's order. It outlives the arguments.
void set_matrix(const MatrixShape& matrix, UpdateSegment& segment, UpdateArguments& arguments);

// Makes one matrix orthogonal, as optimizers of scope `matrix` ask for. `squares`: of its elements.
void orthogonalise_on_host(float* matrix, const Squares* squares, const MatrixShape& shape, const NewtonSchulz& how);

}  // namespace millrace::testkit

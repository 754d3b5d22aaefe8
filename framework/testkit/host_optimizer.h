// Runs an update on the calling thread, in plain loops.
#pragma once

#include "millrace/optimizer.h"

namespace millrace::testkit {

// As in a backend, with products in double for optimizers of scope `matrix`, whose segments are matrices in the network's order.
// `submit` runs a kernel; null: whole. Provides UpdateArguments::direction.
void update_on_host(const Optimizer& optimizer, UpdateArguments arguments, const UpdateTime& time,
                    const Optimizer::Submit& submit = nullptr);

// Makes `segment` the only one, a matrix in the network's order. It outlives the arguments.
void set_matrix(const MatrixShape& matrix, UpdateSegment& segment, UpdateArguments& arguments);

// Makes one matrix orthogonal, for optimizers of scope `matrix`. `squares`: of its elements.
void orthogonalise_on_host(float* matrix, const Squares* squares, const MatrixShape& shape, const NewtonSchulz& how);

}  // namespace millrace::testkit

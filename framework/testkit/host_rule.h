// An update on the calling thread, in plain loops.
#pragma once

#include "millrace/optimizer.h"

namespace millrace::testkit {

// As a backend does it, with products in double for rules of scope `matrix`. Segments of those are matrices in the network's
// order. `submit` runs a kernel; null: whole. UpdateArguments::direction is brought.
void update_on_host(const Rule& rule, UpdateArguments arguments, std::uint64_t updates_done,
                    const Rule::Submit& submit = nullptr);

// Makes one matrix orthogonal, as rules of scope `matrix` ask for. `squares`: of its elements.
void orthogonalise_on_host(float* matrix, const Squares* squares, const MatrixShape& shape, const NewtonSchulz& how);

}  // namespace millrace::testkit

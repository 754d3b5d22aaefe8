// The simplest backend that satisfies the contract: plain loops on the caller's thread, float32, no device. A reference for real
// backends, and used by tests of the training step.
//
// Networks: a chain of "flatten", "linear" and "relu". One bucket for each parameter when CompileOptions::bucket_bytes is small.
#pragma once

#include <memory>

#include "millrace/backend/backend.h"

namespace millrace::testkit {

std::shared_ptr<Backend> make_plain_backend();

// pixels -> linear(hidden) -> relu -> linear(classes); the inputs have mean 0.5 and deviation 0.25.
Network small_network(ImageShape input, int hidden, int classes);

}  // namespace millrace::testkit

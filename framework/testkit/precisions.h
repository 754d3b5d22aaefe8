// Capabilities of a backend on this machine: a processor without AVX-512 has no bf16.
#pragma once

#include "millrace/backend/backend.h"
#include "millrace/plugin.h"

namespace millrace::testkit {

// REQUIRES: the backend has a device.
inline bool computes(const BackendType& backend, Precision precision) {
  return precision != Precision::bf16 || backend.create()->devices().front().bf16;
}

}  // namespace millrace::testkit

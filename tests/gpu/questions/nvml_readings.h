// What the driver's management library says of the first device right now.
#pragma once

#include "findings.h"

namespace millrace::gpu {

// Clocks and their maxima (MHz), power (W), temperature, why clocks are held down, MIG, ECC, compute mode, PCIe link. Each that
// it has; {"why": ...} without the library.
Json nvml_readings();

}  // namespace millrace::gpu

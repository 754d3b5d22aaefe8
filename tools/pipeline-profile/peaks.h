// What a device can do: measured, in some tenths of a second.
#pragma once

#include "layers.h"
#include "millrace/plugin.h"

namespace millrace {

// Matrices are multiplied by a network of one layer, compiled for the device in this precision, so by the library that computes
// the layers of a run. Memory is read and written by as many threads as the device has cores, where its memory is the host's, and
// else by a stream of the device.
Peaks measure_peaks(Device& device, Precision precision, const Registry& registry);

}  // namespace millrace

// Measures a device's peaks within some tenths of a second.
#pragma once

#include "layers.h"
#include "millrace/plugin.h"

namespace millrace {

// Matrices are multiplied by a network of one layer, compiled for the device in this precision, so by the library that computes a
// run's layers. Memory is read and written by one thread per core if the device's memory is the host's, else by a stream of the
// device.
Peaks measure_peaks(Device& device, Precision precision, const Registry& registry);

}  // namespace millrace

// Where this process's threads spend their time, as counted by Linux.
#pragma once

#include "calibration.h"

namespace millrace {

struct ProcessTimes {
  CoreTime io, data, device;  // `device`: all threads except the main one and those of I/O and of data stages
  double others = 0;          // other programs, on the cores that this process may use; only differences are meaningful
};

// Sums since the process began, over living threads. Zeros if the system does not count them. Reads some files of /proc.
ProcessTimes process_times();

}  // namespace millrace

// Where this process's threads spend their time, as Linux counts it.
#pragma once

#include "calibration.h"

namespace millrace {

struct ProcessTimes {
  CoreTime io, data, device;  // `device`: all threads but the main one and those of I/O and of data stages
  double others = 0;          // other programs, on the cores that this process may use; only differences mean something
};

// Sums since the process began, of threads that live. Zeros where the system does not count them. Reads some files of /proc.
ProcessTimes process_times();

}  // namespace millrace

// A device's time by kind of work: for a Replica that is also a MeasuresDevice.
#pragma once

namespace millrace {

// Seconds since the replica was made, by kind of work. Unfinished work counts up to now. Work of several kinds at the same time
// counts for each kind.
struct DeviceTimes {
  double training = 0;   // forward, losses and backward of steps
  double inference = 0;  // Replica::infer() and related work
  double update = 0;     // updates of parameters, copies and states
  double copying = 0;    // batches: transferred to the device, normalised and laid out
  double sums = 0;       // idle while waiting for summed gradients

  double computing() const { return training + inference + update; }
  double busy() const { return computing() + copying; }
};

class MeasuresDevice {
 public:
  virtual ~MeasuresDevice() = default;
  virtual DeviceTimes device_times() const = 0;  // thread-safe
};

}  // namespace millrace

// What a device did for a replica, where its backend measures that: a Replica that also is a MeasuresDevice.
#pragma once

namespace millrace {

// Seconds since the replica was made, by what the device did. Work under way counts as far as it has come. Where a device does
// several of these at once, each counts.
struct DeviceTimes {
  double training = 0;   // forward, losses and backward of steps
  double inference = 0;  // Replica::infer() and what belongs to it
  double update = 0;     // of parameters, their copies and states
  double copying = 0;    // batches: brought to the device, normalised and laid out
  double sums = 0;       // it had nothing to do but to wait for gradients that are added up

  double computing() const { return training + inference + update; }
  double busy() const { return computing() + copying; }
};

class MeasuresDevice {
 public:
  virtual ~MeasuresDevice() = default;
  virtual DeviceTimes device_times() const = 0;  // any thread
};

}  // namespace millrace

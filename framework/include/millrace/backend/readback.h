// Copies a few bytes from a device to the host, and calls a function when they arrive. The caller does not wait.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "millrace/backend/backend.h"
#include "millrace/stage.h"

namespace millrace {

// Used by one thread at a time. Destroy it after its stream's work is done.
class Readback {
 public:
  // `device` outlives the readback.
  Readback(Device& device, std::size_t bytes) : device_(device), bytes_(bytes) {}

  // Copies the bytes at `source`, memory of the device, as work on `stream` that has been submitted leaves them. Then calls
  // `known` with the copy, on a thread of the device; what it throws ends the run. The graph does not end before. If the device
  // fails, `known` is not called and the failure ends the run.
  void read(Stream& stream, const void* source, Output& output, std::function<void(const std::uint8_t* bytes)> known);

 private:
  std::shared_ptr<std::uint8_t[]> free_place();

  Device& device_;
  const std::size_t bytes_;
  std::vector<std::shared_ptr<std::uint8_t[]>> places_;  // host memory, one for each read in progress at the same time
};

}  // namespace millrace

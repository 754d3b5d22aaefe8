// Free memory of the first GPU, from its driver and so independent of the backend.
#pragma once

#include <cstddef>
#include <optional>

namespace millrace::gpu {

// Empty without a driver or device.
std::optional<std::size_t> free_device_memory();

}  // namespace millrace::gpu

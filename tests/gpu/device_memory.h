// How much of the first GPU's memory is free, as its driver says: an opinion that is not the backend's own.
#pragma once

#include <cstddef>
#include <optional>

namespace millrace::gpu {

// Nothing where there is no driver or no device.
std::optional<std::size_t> free_device_memory();

}  // namespace millrace::gpu

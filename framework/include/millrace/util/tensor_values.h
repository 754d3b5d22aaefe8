// Reads values from files of weights and checkpoints, for inspection.
#pragma once

#include <functional>
#include <span>
#include <string>

namespace millrace {

// Passes each floating-point tensor of a safetensors file to `take`, in file order, with one at a time in memory. Throws
// Error(data) naming the file, and rethrows errors of `take`.
void for_each_tensor(const std::string& path,
                     const std::function<void(const std::string& name, std::span<const float> values)>& take);

}  // namespace millrace

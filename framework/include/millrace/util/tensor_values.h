// The values in files of weights and checkpoints, for those who look at them.
#pragma once

#include <functional>
#include <span>
#include <string>

namespace millrace {

// Gives each tensor of floating-point numbers in a safetensors file to `take`, in their order there. One at a time lies in
// memory. Throws Error(data) that names the file, and what `take` throws.
void for_each_tensor(const std::string& path,
                     const std::function<void(const std::string& name, std::span<const float> values)>& take);

}  // namespace millrace

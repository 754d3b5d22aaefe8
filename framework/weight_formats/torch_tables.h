// Finds the model's tensors in a checkpoint. Every project wraps its state dict differently: "state_dict", "net", "ema",
// "state_dict_ema", {"ema": {"module": ...}}.
#pragma once

#include <functional>
#include <string>

#include "weight_formats/pickle.h"

namespace millrace {

// The table at `inside`: keys joined by dots, such as "ema.module". "": the one under "state_dict", "model" or
// "model_state_dict", else the pickle itself if it holds tensors, else the only table with tensors, at most four keys deep, that
// is not an optimizer's. Throws Error(data) that lists the tables. `is_tensor`: whether a value is a tensor.
const PickleNode& table_of_tensors(const Pickle& pickle, const std::string& inside,
                                   const std::function<bool(const PickleNode& value)>& is_tensor);

}  // namespace millrace

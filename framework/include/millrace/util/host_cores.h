// The processor cores of this machine.
#pragma once

#include <vector>

namespace millrace {

std::vector<int> available_cores();  // that this process may run on, rising; never empty

}  // namespace millrace

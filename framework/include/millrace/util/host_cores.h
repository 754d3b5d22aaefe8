// The processor cores of this machine.
#pragma once

#include <vector>

namespace millrace {

std::vector<int> available_cores();  // cores that this process may run on, ascending; never empty

}  // namespace millrace

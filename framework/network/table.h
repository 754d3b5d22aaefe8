// A network as text, for people.
#pragma once

#include <string>

#include "millrace/network.h"

namespace millrace {

// One line a layer: name, op with what matters of its figures, output shape, parameters, multiply-adds; then the sums.
std::string network_table(const Network& network);

}  // namespace millrace

#pragma once

#include <functional>

namespace millrace {

// Calls what writes a program's output. Where that cannot be written, the data are not to blame: ErrorKind::data and
// ErrorKind::storage become ErrorKind::run, so that the program ends with exit code 1.
void write_output(const std::function<void()>& write);

}  // namespace millrace

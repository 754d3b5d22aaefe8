#include "common/write_output.h"

#include "millrace/error.h"

namespace millrace {

void write_output(const std::function<void()>& write) {
  try {
    write();
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::data && error.kind() != ErrorKind::storage) throw;
    Error failed(ErrorKind::run, error.message());
    for (const std::string& frame : error.context()) failed.in(frame);
    throw failed;  // NOLINT(misc-throw-by-value-catch-by-reference): a copy
  }
}

}  // namespace millrace

// A mistake that every rank has found.
#pragma once

#include <string>

#include "millrace/communicator.h"
#include "millrace/error.h"

namespace millrace {

// Throws it when all ranks have found it, so that each says it instead of the loss of the one that ended first. All ranks call
// it.
[[noreturn]] inline void fail_together(Group& group, ErrorKind kind, const std::string& text) {
  try {
    group.barrier(Group::kRun);
  } catch (const Error&) {  // a rank has ended already
  }
  fail(kind, "{}", text);
}

}  // namespace millrace

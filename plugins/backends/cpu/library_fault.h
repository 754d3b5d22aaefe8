// Survives a library that crashes while it creates a kernel.
#pragma once

#include <functional>
#include <string>

namespace millrace::cpu {

// Runs `call` on this thread. Returns "crashes with signal 11 (Segmentation fault)" if a fault of this thread ended it, else "".
// After a fault nothing from the call is destroyed: do not repeat it. Rethrows exceptions of `call`. Calls from several threads
// are serialised.
std::string library_fault(const std::function<void()>& call);

}  // namespace millrace::cpu

// A library that crashes as it makes a kernel must not take the program with it.
#pragma once

#include <functional>
#include <string>

namespace millrace::cpu {

// Calls `call` on this thread. Returns "crashes with signal 11 (Segmentation fault)" where a fault of this thread ended it, and
// "" otherwise. After a fault nothing of the call is destroyed: what it asked for is not to be asked for again. Throws what
// `call` throws. Calls of several threads follow each other.
std::string library_fault(const std::function<void()>& call);

}  // namespace millrace::cpu

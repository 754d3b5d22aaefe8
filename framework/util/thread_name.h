// Thread names as shown by `top -H`, gdb and perf.
#pragma once

#include <pthread.h>

#include <string>

namespace millrace {

// Names the calling thread; fifteen characters are kept.
inline void name_this_thread(const std::string& name) { pthread_setname_np(pthread_self(), name.substr(0, 15).c_str()); }

}  // namespace millrace

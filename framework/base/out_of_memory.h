// What an Error says that std::bad_alloc has become: current_error().
#pragma once

namespace millrace {

inline constexpr const char* kOutOfMemory = "out of memory";

}  // namespace millrace

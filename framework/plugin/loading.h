// The library that a program is opening, for its message if that ends the process.
#pragma once

namespace millrace {

// Path of the library; null: none. Async-signal-safe.
const char* loading_plugin() noexcept;

}  // namespace millrace

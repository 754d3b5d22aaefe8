// Which library a program is opening, for what it says when that ends the process.
#pragma once

namespace millrace {

// Its path; null: none. Async-signal-safe.
const char* loading_plugin() noexcept;

}  // namespace millrace

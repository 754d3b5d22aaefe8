// What a program and its plugins tell the person who runs them.
//
// Standard error may be closed, a terminal that is gone, a pipe without a reader or a file on a full disk. None of that is a
// reason to end a run: what cannot be written is lost, and nothing throws because of it.
#pragma once

#include <fmt/core.h>

#include <string_view>

namespace millrace {

// Writes the text as it is, at once. Threads: any; texts of two threads do not mix.
void write_to_stderr(std::string_view text) noexcept;

// print_to_stderr("weights: {}\n", path)
template <class... Args>
void print_to_stderr(fmt::format_string<Args...> format, const Args&... args) {
  write_to_stderr(fmt::vformat(format, fmt::make_format_args(args...)));
}

}  // namespace millrace

// Messages of a program and its plugins to its user.
//
// Standard error may be closed, a terminal that is gone, a pipe without a reader or a file on a full disk. None of that may end a
// run: text that cannot be written is lost, and nothing throws.
#pragma once

#include <fmt/core.h>

#include <cstddef>
#include <string>
#include <string_view>
#include <type_traits>

#include "millrace/util/text.h"

namespace millrace {

// Columns of the terminal behind standard error; 100 if unknown.
std::size_t terminal_width() noexcept;

// Indents each line but the first by two more blanks, to show where the next message begins.
std::string with_indented_lines(std::string_view text);

// Writes the text unchanged, at once. Thread-safe: texts do not mix.
void write_to_stderr(std::string_view text) noexcept;

namespace detail {
template <class T>
decltype(auto) terminal_argument(const T& value) {
  if constexpr (std::is_convertible_v<const T&, std::string_view>)
    return terminal_text(value);
  else
    return value;
}
}  // namespace detail

// print_to_stderr("weights: {}\n", path) The format may contain terminal controls; in the arguments, such as file names, they are
// escaped.
template <class... Args>
void print_to_stderr(fmt::format_string<Args...> format, const Args&... args) {
  [&](const auto&... shown) {
    write_to_stderr(fmt::vformat(format, fmt::make_format_args(shown...)));
  }(detail::terminal_argument(args)...);
}

}  // namespace millrace

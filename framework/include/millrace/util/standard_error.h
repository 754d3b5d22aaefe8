// What a program and its plugins tell the person who runs them.
//
// Standard error may be closed, a terminal that is gone, a pipe without a reader or a file on a full disk. None of that is a
// reason to end a run: what cannot be written is lost, and nothing throws because of it.
#pragma once

#include <fmt/core.h>

#include <cstddef>
#include <string>
#include <string_view>
#include <type_traits>

#include "millrace/util/text.h"

namespace millrace {

// How many columns a terminal has that standard error goes to; 100 where that is not known.
std::size_t terminal_width() noexcept;

// The text with two blanks more at the beginning of each line but the first: one sees where the next message begins.
std::string with_indented_lines(std::string_view text);

// Writes the text as it is, at once. Threads: any; texts of two threads do not mix.
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

// print_to_stderr("weights: {}\n", path)
// The format may control a terminal; the arguments, in which names of files may stand, cannot.
template <class... Args>
void print_to_stderr(fmt::format_string<Args...> format, const Args&... args) {
  [&](const auto&... shown) {
    write_to_stderr(fmt::vformat(format, fmt::make_format_args(shown...)));
  }(detail::terminal_argument(args)...);
}

}  // namespace millrace

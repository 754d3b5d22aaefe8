// A TOML file with one mistake in it, as a hand makes it.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace millrace::test {

struct Mutant {
  enum class Kind { key, table, name, reference, number, type, flow, line, bracket };

  Kind kind = Kind::key;
  std::string text;           // the whole file
  int line = 0;               // of the mistake
  std::string before, after;  // what stood there, and what stands there now; without quotes
  std::string key = {};       // in front of the value that was changed: "stage" of `stage = "read_foldr"`

  // A letter of a word is swapped with the next one, dropped, doubled, or replaced by its neighbour on the keyboard.
  bool is_misspelt() const { return kind <= Kind::reference; }
};

inline constexpr std::array<std::string_view, 9> kMutantKinds = {"key",  "table", "name", "reference", "number",
                                                                 "type", "flow",  "line", "bracket"};

// One edit of `text`, which follows from `seed` and nothing else.
Mutant mutant_of(const std::string& text, std::uint64_t seed);

}  // namespace millrace::test

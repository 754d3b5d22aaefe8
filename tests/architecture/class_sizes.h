// How large classes are: counted from their definitions, as far as the check needs it.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

namespace millrace::architecture {

// Functions that are declared, without those that are deleted or defaulted; and fields, without static ones. A nested class is
// one of its own.
struct ClassSize {
  std::string name;  // "Graph", "Graph::Figures"
  std::size_t lines = 0;
  std::size_t public_functions = 0, private_functions = 0;  // what is protected counts as private
  std::size_t fields = 0;
};

// Those that a header or source defines, in its order.
std::vector<ClassSize> classes_in(const std::filesystem::path& file);

}  // namespace millrace::architecture

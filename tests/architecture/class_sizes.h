// Sizes of classes, counted from their definitions as far as the check needs.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

namespace millrace::architecture {

// Declared functions, except deleted and defaulted ones; and fields, except static ones. A nested class is counted separately.
struct ClassSize {
  std::string name;  // "Graph", "Graph::Figures"
  std::size_t lines = 0;
  std::size_t public_functions = 0, private_functions = 0;  // protected members count as private
  std::size_t fields = 0;
};

// The classes defined in a header or source, in order.
std::vector<ClassSize> classes_in(const std::filesystem::path& file);

}  // namespace millrace::architecture

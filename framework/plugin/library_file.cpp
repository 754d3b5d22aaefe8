#include "plugin/library_file.h"

#include <elf.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>

namespace millrace {
namespace {

template <class T>
bool read_at(std::ifstream& file, std::uint64_t offset, T& value) {
  char bytes[sizeof(T)];
  file.seekg(static_cast<std::streamoff>(offset));
  if (!file.read(bytes, sizeof bytes)) return false;
  std::memcpy(&value, bytes, sizeof bytes);
  return true;
}

}  // namespace

std::string missing_part(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  Elf64_Ehdr header{};
  if (!read_at(file, 0, header) || std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0) return {};
  std::error_code ignored;
  const std::uint64_t size = std::filesystem::file_size(path, ignored);
  std::uint64_t needed = header.e_phoff + std::uint64_t{header.e_phnum} * sizeof(Elf64_Phdr);
  for (std::uint64_t i = 0; i < header.e_phnum && needed <= size; ++i) {
    Elf64_Phdr part{};
    if (!read_at(file, header.e_phoff + i * sizeof part, part)) break;
    if (part.p_type == PT_LOAD) needed = std::max<std::uint64_t>(needed, part.p_offset + part.p_filesz);
  }
  if (needed <= size) return {};
  return fmt::format("the file has {} bytes, and the library in it at least {}: build or copy it again", size, needed);
}

}  // namespace millrace

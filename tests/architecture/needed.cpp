#include "needed.h"

#include <elf.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <initializer_list>
#include <iterator>
#include <sstream>
#include <stdexcept>

namespace millrace::architecture {
namespace {

class Elf {
 public:
  explicit Elf(const std::filesystem::path& path) : path_(path) {
    std::ifstream stream(path, std::ios::binary);
    bytes_.assign(std::istreambuf_iterator<char>(stream), {});
    if (bytes_.size() < sizeof(Elf64_Ehdr) || bytes_.compare(0, SELFMAG, ELFMAG) != 0) broken();
  }

  // The texts of all entries of the dynamic section that have one of these tags.
  std::vector<std::string> texts_of(std::initializer_list<Elf64_Sxword> tags) const {
    const auto header = read<Elf64_Ehdr>(0);
    std::vector<std::string> names;
    for (Elf64_Half i = 0; i < header.e_shnum; ++i) {
      const Elf64_Shdr section = this->section(header, i);
      if (section.sh_type != SHT_DYNAMIC) continue;
      const Elf64_Shdr texts = this->section(header, section.sh_link);
      for (Elf64_Off at = section.sh_offset; at < section.sh_offset + section.sh_size; at += sizeof(Elf64_Dyn)) {
        const auto entry = read<Elf64_Dyn>(at);
        const bool wanted = std::find(tags.begin(), tags.end(), entry.d_tag) != tags.end();
        if (wanted) names.push_back(text(texts.sh_offset + entry.d_un.d_val));
      }
    }
    return names;
  }

 private:
  template <class T>
  T read(Elf64_Off at) const {
    T value;
    if (at + sizeof value > bytes_.size()) broken();
    std::memcpy(&value, bytes_.data() + at, sizeof value);
    return value;
  }
  Elf64_Shdr section(const Elf64_Ehdr& header, Elf64_Word index) const {
    return read<Elf64_Shdr>(header.e_shoff + Elf64_Off{index} * header.e_shentsize);
  }
  std::string text(Elf64_Off at) const {
    if (at >= bytes_.size()) broken();
    return bytes_.c_str() + at;
  }
  [[noreturn]] void broken() const { throw std::runtime_error(path_.string() + " is no 64-bit ELF library"); }

  std::filesystem::path path_;
  std::string bytes_;
};

}  // namespace

std::vector<std::string> needed_libraries(const std::filesystem::path& library) { return Elf(library).texts_of({DT_NEEDED}); }

std::vector<std::string> run_paths(const std::filesystem::path& library) {
  std::vector<std::string> folders;
  for (const std::string& list : Elf(library).texts_of({DT_RPATH, DT_RUNPATH})) {
    std::istringstream stream(list);
    for (std::string folder; std::getline(stream, folder, ':');) folders.push_back(folder);
  }
  return folders;
}

}  // namespace millrace::architecture

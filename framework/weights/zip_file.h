// Reads uncompressed files in a zip archive, as torch.save() stores them. Supports archives of more than 4 GiB (zip64). The
// archive is untrusted: every number is checked before use.
//   ZipFile zip("weights.pth");
//   std::string pickle = zip.read("archive/data.pkl", kMax);
// Throws Error(data): not a zip archive, or truncated. Source: the format's description, PKWARE's APPNOTE.TXT 6.3.10.
#pragma once

#include <cstdint>
#include <fstream>
#include <map>
#include <span>
#include <string>
#include <string_view>

namespace millrace {

class ZipFile {
 public:
  struct Entry {
    std::uint64_t header = 0, bytes = 0;  // position of its own header, and size of its content
    std::uint16_t flags = 0, method = 0;
    std::uint64_t begin = 0;  // position of its content in the archive; 0 until it is opened
  };
  using Entries = std::map<std::string, Entry, std::less<>>;

  explicit ZipFile(const std::string& path);

  std::uint64_t bytes() const { return size_; }  // size of the archive
  const Entries& entries() const { return entries_; }
  bool has(std::string_view name) const { return entries_.find(name) != entries_.end(); }
  // Refuses by name an entry that is missing, compressed or encrypted, or not where the list of entries places it.
  const Entry& open(std::string_view name);

  // Bytes of an open entry, starting at `offset`. REQUIRES: offset + to.size() <= entry.bytes.
  void read(const Entry& entry, std::uint64_t offset, std::span<char> to);
  // A whole entry; refused if longer than `most` bytes.
  std::string read(std::string_view name, std::uint64_t most);

 private:
  struct Directory {
    std::uint64_t offset = 0, bytes = 0, count = 0;
  };
  void take(std::uint64_t offset, std::span<char> to);
  std::string take(std::uint64_t offset, std::uint64_t bytes);
  Directory find_directory();
  Directory large_directory(std::uint64_t end, Directory small);
  void read_directory(const Directory& directory);
  std::uint64_t content_of(std::string_view name, const Entry& entry);

  std::ifstream file_;
  std::uint64_t size_ = 0;
  Entries entries_;
};

}  // namespace millrace

// The headers of a tar archive, one member after the other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "window.h"

namespace millrace {

struct TarMember {
  enum class Kind { file, link, other };  // link: hard or symbolic; other: folders, devices, labels of volumes

  std::string name;          // data, never a path: nothing is opened or written under it
  std::uint64_t header = 0;  // where its first header begins
  std::uint64_t offset = 0;  // where its bytes begin
  std::uint64_t bytes = 0;
  Kind kind = Kind::file;
};

// Headers and the beginnings of members lie at multiples of it. A member's own header stands right before its bytes.
inline constexpr std::size_t kTarBlock = 512;

// Whether the block is the header of a member of so many bytes. REQUIRES: block.size() == kTarBlock.
bool is_header_of(std::span<const std::uint8_t> block, std::uint64_t bytes);

// Reads ustar, GNU tar and pax archives, and those of the seventh edition of Unix. Blocks of zeros are passed over, so that
// archives put one after the other count as one.
//
// Errors: ErrorKind::data, with the offset: a header whose checksum is wrong, a size that is none, sparse members and archives of
// several volumes, and a member that ends after the archive's end.
// Source: POSIX.1-2017, pax; "Basic Tar Format" in GNU tar's manual.
class TarReader {
 public:
  explicit TarReader(Window& window) : window_(&window) {}

  bool next(TarMember& member);  // false at the end

  // How many blocks of zeros stand after the last member so far. A whole archive ends in two, or in one of a few more.
  std::uint64_t zeros() const { return zeros_; }

 private:
  // What extended headers say about the member that follows; empty or 0 bytes where they do not.
  struct Extension {
    std::string name;
    std::uint64_t bytes = 0;
    bool has_bytes = false;
  };

  bool read_header(TarMember& member, std::uint64_t& bytes, char& type);
  std::string_view content(std::uint64_t bytes);  // of the extended header at at_, which is passed
  void read_pax(std::string_view records, Extension& extension) const;
  void pass(std::uint64_t bytes);  // over a member's bytes, up to the next header
  [[noreturn]] void truncated(const TarMember& member, std::uint64_t bytes) const;

  Window* window_;
  std::uint64_t at_ = 0, zeros_ = 0;
  Extension all_;  // of a global header
};

}  // namespace millrace

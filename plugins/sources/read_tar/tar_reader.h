// Reads the headers of a tar archive, member by member.
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

  std::string name;          // data, never a path: nothing is opened or written by this name
  std::uint64_t header = 0;  // offset of its first header
  std::uint64_t offset = 0;  // offset of its bytes
  std::uint64_t bytes = 0;
  Kind kind = Kind::file;
};

// Headers and contents begin at multiples of this. A member's own header is right before its bytes.
inline constexpr std::size_t kTarBlock = 512;

// True if the block is the header of a member of this size. REQUIRES: block.size() == kTarBlock.
bool is_header_of(std::span<const std::uint8_t> block, std::uint64_t bytes);

// Reads ustar, GNU tar and pax archives, and those of the seventh edition of Unix. Blocks of zeros are skipped, so that
// concatenated archives count as one.
//
// Errors: ErrorKind::data, with the offset: a wrong checksum, an invalid size, sparse members, multi-volume archives, and a
// member that ends after the archive's end.
// Source: POSIX.1-2017, pax; "Basic Tar Format" in GNU tar's manual.
class TarReader {
 public:
  explicit TarReader(Window& window) : window_(&window) {}

  bool next(TarMember& member);  // false at the end

  // Bytes of zeros after the last member so far. A complete archive ends in at least one block of them, usually two.
  std::uint64_t zeros() const { return zeros_; }

 private:
  // Values from extended headers for the next member; empty or 0 bytes if not given.
  struct Extension {
    std::string name;
    std::uint64_t bytes = 0;
    bool has_bytes = false;
  };

  bool read_header(TarMember& member, std::uint64_t& bytes, char& type);
  std::string_view content(std::uint64_t bytes);  // content of the extended header at at_, which is skipped
  void read_pax(std::string_view records, Extension& extension) const;
  void pass(std::uint64_t bytes);  // skips a member's bytes, up to the next header
  [[noreturn]] void truncated(const TarMember& member, std::uint64_t bytes) const;

  Window* window_;
  std::uint64_t at_ = 0, zeros_ = 0;
  Extension all_;  // from a global header
};

}  // namespace millrace

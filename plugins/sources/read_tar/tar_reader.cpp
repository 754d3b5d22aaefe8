#include "tar_reader.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include "millrace/error.h"
#include "millrace/util/text.h"

namespace millrace {

namespace {

constexpr std::uint64_t kBlock = kTarBlock;
constexpr std::uint64_t kLongestExtension = std::uint64_t{1} << 20;  // for names and pax records
constexpr std::size_t kLongestName = 4096;

// Position of a header field.
struct Field {
  std::size_t offset, size;
};
constexpr Field kName{0, 100}, kSize{124, 12}, kChecksum{148, 8}, kMagic{257, 8}, kPrefix{345, 155};
constexpr std::size_t kType = 156;

std::span<const std::uint8_t> bytes_of(std::span<const std::uint8_t> block, Field field) {
  return block.subspan(field.offset, field.size);
}

// Up to the first zero.
std::string_view text_of(std::span<const std::uint8_t> block, Field field) {
  const std::string_view text(reinterpret_cast<const char*>(block.data()) + field.offset, field.size);
  return text.substr(0, text.find('\0'));
}

// Octal digits between spaces and zeros; or, in GNU's format, a set first bit and the number in base 256.
std::optional<std::uint64_t> number_of(std::span<const std::uint8_t> field) {
  std::uint64_t value = 0;
  if ((field[0] & 0x80U) != 0) {
    if (field[0] != 0x80U) return std::nullopt;  // negative, or too large for 8 bytes
    for (const std::uint8_t byte : field.subspan(1)) {
      if (value >> 56U != 0) return std::nullopt;
      value = value << 8U | byte;
    }
    return value;
  }
  std::size_t i = 0;
  while (i < field.size() && field[i] == ' ') ++i;
  for (; i < field.size() && field[i] >= '0' && field[i] <= '7'; ++i) value = value << 3U | (field[i] - std::uint64_t{'0'});
  if (i < field.size() && field[i] != ' ' && field[i] != 0) return std::nullopt;
  return value;
}

// Recognises other archives by their first bytes, whatever their name; null if unknown.
const char* other_archive(std::span<const std::uint8_t> block) {
  const std::string_view begin(reinterpret_cast<const char*>(block.data()), block.size());
  return begin.starts_with("\x1f\x8b") ? "compressed by gzip"
         : begin.starts_with("BZh")    ? "compressed by bzip2"
         : begin.starts_with(
               "\xfd"
               "7zXZ")
             ? "compressed by xz"
         : begin.starts_with("\x28\xb5\x2f\xfd") ? "compressed by zstd"
         : begin.starts_with("PK\x03\x04")       ? "a ZIP archive"
         : begin.starts_with("7z\xbc\xaf")       ? "a 7z archive"
         : begin.starts_with("07070")            ? "a cpio archive"
                                                 : nullptr;
}

// The sum of all bytes, those of the checksum taken as spaces. Some old archives summed them as signed ones.
bool checksum_fits(std::span<const std::uint8_t> block) {
  std::uint64_t sum = 8 * std::uint64_t{' '};
  std::int64_t signed_sum = 8 * std::int64_t{' '};
  for (std::size_t i = 0; i < block.size(); ++i) {
    if (i >= kChecksum.offset && i < kChecksum.offset + kChecksum.size) continue;
    sum += block[i];
    signed_sum += static_cast<std::int8_t>(block[i]);
  }
  const auto written = number_of(bytes_of(block, kChecksum));
  return written && (*written == sum || static_cast<std::int64_t>(*written) == signed_sum);
}

std::string name_of(std::span<const std::uint8_t> block) {
  std::string name(text_of(block, kName));
  const std::string_view prefix = text_of(block, kPrefix);
  const bool posix = text_of(block, kMagic) == "ustar";  // GNU's format, "ustar  ", uses these bytes differently
  return posix && !prefix.empty() ? std::string(prefix) + "/" + name : name;
}

TarMember::Kind kind_of(char type) {
  switch (type) {
    case '0':
    case '\0':
    case '7': return TarMember::Kind::file;  // '7': contiguous, on systems that supported it
    case '1':
    case '2': return TarMember::Kind::link;
    default: return TarMember::Kind::other;
  }
}

// No bytes follow the header of a link, device, folder or pipe, whatever its size field holds: it may be the link target's size
// or a folder's limit.
bool has_content(char type) { return type < '1' || type > '6'; }

std::uint64_t padded(std::uint64_t bytes) { return (bytes + kBlock - 1) / kBlock * kBlock; }

}  // namespace

// If a pax header has the size, the header may contain 0.
bool is_header_of(std::span<const std::uint8_t> block, std::uint64_t bytes) {
  const auto size = number_of(bytes_of(block, kSize));
  return checksum_fits(block) && size && (*size == bytes || *size == 0);
}

bool TarReader::next(TarMember& member) {
  Extension own;
  std::string long_name;
  bool extended = false;
  std::uint64_t bytes = 0;
  char type = 0;
  member = {};
  for (std::uint64_t first = 0; read_header(member, bytes, type);) {
    if (!extended) first = member.header;
    switch (type) {
      case 'L':
        long_name = content(bytes);
        extended = true;
        continue;
      case 'K':
        content(bytes);
        extended = true;
        continue;  // the name of a link's target
      case 'x':
      case 'X':
        read_pax(content(bytes), own);
        extended = true;
        continue;
      case 'g': read_pax(content(bytes), all_); continue;
      case 'S': fail(ErrorKind::data, "member '{}' at byte {} is sparse: pack it without --sparse", shown(member.name), first);
      case 'M': fail(ErrorKind::data, "member '{}' at byte {} continues from another volume", shown(member.name), first);
      default: break;
    }
    member.header = first;
    if (!long_name.empty()) member.name = long_name;
    const std::string& name = own.name.empty() ? all_.name : own.name;
    if (!name.empty()) member.name = name;
    if (own.has_bytes || all_.has_bytes) bytes = own.has_bytes ? own.bytes : all_.bytes;
    if (member.name.size() > kLongestName)
      fail(ErrorKind::data, "the name of the member at byte {} has {} bytes, at most {} are allowed", first, member.name.size(),
           kLongestName);
    if (!has_content(type)) bytes = 0;
    member.kind = kind_of(type);
    member.offset = at_;
    member.bytes = bytes;
    if (bytes > window_->object_bytes() - at_) truncated(member, bytes);
    pass(bytes);
    return true;
  }
  if (extended)
    fail(ErrorKind::data, "truncated: the archive ends at byte {}, after an extended header", window_->object_bytes());
  return false;
}

// Skips blocks of zeros and reads one header; returns false at the end.
bool TarReader::read_header(TarMember& member, std::uint64_t& bytes, char& type) {
  const auto is_zero = [](std::uint8_t byte) { return byte == 0; };
  while (at_ < window_->object_bytes()) {
    const std::uint64_t left = window_->object_bytes() - at_;
    const auto block = window_->at(at_, static_cast<std::size_t>(std::min(kBlock, left)));
    if (block[0] == 0 && std::all_of(block.begin(), block.end(), is_zero)) {
      at_ += block.size();
      zeros_ += block.size();
      continue;
    }
    if (block.size() < kBlock)
      fail(ErrorKind::data, "truncated: the archive ends at byte {}, within the header at byte {}", window_->object_bytes(), at_);
    if (!checksum_fits(block)) {
      const char* const other = at_ == 0 ? other_archive(block) : nullptr;
      if (other != nullptr) fail(ErrorKind::data, "it is {}: single samples are read from plain tar archives only", other);
      fail(ErrorKind::data, "expected a tar header at byte {}, but its checksum is wrong", at_);
    }
    const auto size = number_of(bytes_of(block, kSize));
    member.name = name_of(block);
    if (!size) fail(ErrorKind::data, "the size of member '{}' at byte {} is not a number", shown(member.name), at_);
    bytes = *size;
    type = static_cast<char>(block[kType]);
    member.header = at_;
    at_ += kBlock;
    zeros_ = 0;
    return true;
  }
  return false;
}

std::string_view TarReader::content(std::uint64_t bytes) {
  if (bytes > kLongestExtension) {
    fail(ErrorKind::data, "the extended header at byte {} has {} bytes, at most {} are allowed", at_ - kBlock, bytes,
         kLongestExtension);
  }
  if (bytes > window_->object_bytes() - at_) {
    fail(ErrorKind::data, "truncated: the archive ends at byte {}, within the extended header at byte {}",
         window_->object_bytes(), at_ - kBlock);
  }
  const auto block = window_->at(at_, static_cast<std::size_t>(bytes));
  pass(bytes);
  const std::string_view text(reinterpret_cast<const char*>(block.data()), block.size());
  return text.substr(0, text.find_last_not_of('\0') + 1);
}

// Records are "LENGTH KEY=VALUE\n"; the length counts the whole record.
void TarReader::read_pax(std::string_view records, Extension& extension) const {
  const auto broken = [&] { fail(ErrorKind::data, "the pax header before byte {} is damaged", at_); };
  while (!records.empty()) {
    std::size_t length = 0;
    const auto [end, error] = std::from_chars(records.data(), records.data() + records.size(), length);
    const auto digits = static_cast<std::size_t>(end - records.data());
    if (error != std::errc() || length < digits + 4 || length > records.size() || *end != ' ' || records[length - 1] != '\n')
      broken();
    const std::string_view record = records.substr(digits + 1, length - digits - 2);
    records.remove_prefix(length);
    const std::size_t equals = record.find('=');
    if (equals == record.npos) broken();
    const std::string_view key = record.substr(0, equals), value = record.substr(equals + 1);
    if (key.starts_with("GNU.sparse.")) fail(ErrorKind::data, "the member at byte {} is sparse: pack it without --sparse", at_);
    if (key == "path") extension.name = value;
    if (key != "size") continue;
    const auto [stop, wrong] = std::from_chars(value.data(), value.data() + value.size(), extension.bytes);
    extension.has_bytes = !value.empty();  // an empty value cancels a global header's
    if (!value.empty() && (wrong != std::errc() || stop != value.data() + value.size())) broken();
  }
}

void TarReader::pass(std::uint64_t bytes) {
  const std::uint64_t left = window_->object_bytes() - at_;
  at_ += std::min(left, padded(bytes));  // the last member's padding may be missing
}

void TarReader::truncated(const TarMember& member, std::uint64_t bytes) const {
  fail(ErrorKind::data, "truncated: member '{}' has {} bytes from byte {} on, and the archive ends at byte {}",
       shown(member.name), bytes, at_, window_->object_bytes());
}

}  // namespace millrace

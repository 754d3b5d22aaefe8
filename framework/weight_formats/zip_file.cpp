#include "weight_formats/zip_file.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <limits>

#include "millrace/error.h"
#include "millrace/util/text.h"
#include "weight_formats/byte_cursor.h"
#include "weight_formats/tensor_file.h"

namespace millrace {
namespace {

constexpr std::uint64_t kEndRecord = 22, kLargeLocator = 20, kLargeEnd = 56, kLocalHeader = 30;  // sizes of these records
constexpr std::uint64_t kLongestComment = 65535;
constexpr std::uint64_t kLongestDirectory = 64'000'000;
constexpr std::uint32_t kEndMark = 0x06054b50, kLargeLocatorMark = 0x07064b50, kLargeEndMark = 0x06064b50;
constexpr std::uint32_t kEntryMark = 0x02014b50, kLocalMark = 0x04034b50;
constexpr std::uint16_t kEncrypted = 1, kLargeFigures = 1;
constexpr std::uint32_t kInLargeFigures = std::numeric_limits<std::uint32_t>::max();

std::uint32_t mark_at(const std::string& bytes, std::size_t at) {
  std::uint32_t mark = 0;
  std::memcpy(&mark, bytes.data() + at, sizeof(mark));
  return mark;
}

struct DirectoryEntry {
  std::string name;
  std::uint16_t flags = 0, method = 0;
  std::uint64_t stored = 0, bytes = 0, header = 0;
};

// Numbers that do not fit 32 bits are in an extra field, in this order, and only those.
void read_large_figures(std::string_view extra, DirectoryEntry& entry) {
  ByteCursor fields(extra, "an entry's extra field");
  while (fields.left() >= 4) {
    const std::uint16_t kind = fields.u16();
    const std::string_view content = fields.text(fields.u16());
    if (kind != kLargeFigures) continue;
    ByteCursor figures(content, "an entry's zip64 field");
    for (std::uint64_t* figure : {&entry.bytes, &entry.stored, &entry.header}) {
      if (*figure == kInLargeFigures) *figure = figures.u64();
    }
    return;
  }
}

DirectoryEntry read_directory_entry(ByteCursor& from) {
  if (from.u32() != kEntryMark) fail(ErrorKind::data, "its list of entries is damaged: it was cut or changed");
  DirectoryEntry entry;
  from.text(4);  // versions
  entry.flags = from.u16();
  entry.method = from.u16();
  from.text(8);  // time, checksum
  entry.stored = from.u32();
  entry.bytes = from.u32();
  const std::uint16_t name = from.u16(), extra = from.u16(), comment = from.u16();
  from.text(8);  // disk, attributes
  entry.header = from.u32();
  entry.name = from.text(name);
  read_large_figures(from.text(extra), entry);
  from.text(comment);
  return entry;
}

}  // namespace

ZipFile::ZipFile(const std::string& path) : file_(path, std::ios::binary) {
  std::error_code error;
  size_ = std::filesystem::file_size(path, error);
  if (error || !file_) fail(ErrorKind::data, "cannot be opened: {}", error ? error.message() : std::strerror(errno));
  read_directory(find_directory());
}

const ZipFile::Entry& ZipFile::open(std::string_view name) {
  const auto found = entries_.find(name);
  if (found == entries_.end()) fail(ErrorKind::data, "it has no entry '{}'", shown(name));
  Entry& entry = found->second;
  if (entry.flags & kEncrypted) fail(ErrorKind::data, "its entry '{}' is encrypted", shown(name));
  if (entry.method != 0) {
    fail(ErrorKind::data, "its entry '{}' is compressed: only stored entries are read, as torch.save() writes them", shown(name));
  }
  if (entry.begin == 0) entry.begin = content_of(name, entry);
  return entry;
}

void ZipFile::read(const Entry& entry, std::uint64_t offset, std::span<char> to) { take(entry.begin + offset, to); }

std::string ZipFile::read(std::string_view name, std::uint64_t most) {
  const Entry& entry = open(name);
  if (entry.bytes > most) fail(ErrorKind::data, "its entry '{}' has {} bytes, more than {}", shown(name), entry.bytes, most);
  return take(entry.begin, entry.bytes);
}

void ZipFile::take(std::uint64_t offset, std::span<char> to) {
  if (offset > size_ || to.size() > size_ - offset) {
    fail(ErrorKind::data, "has {} bytes, but a part of it would be at byte {}: it was cut or changed", size_, offset);
  }
  file_.seekg(static_cast<std::streamoff>(offset));
  if (!file_.read(to.data(), static_cast<std::streamsize>(to.size()))) fail(ErrorKind::data, "cannot be read to its end");
}

std::string ZipFile::take(std::uint64_t offset, std::uint64_t bytes) {
  if (bytes > size_) fail(ErrorKind::data, "has {} bytes, too few for one of its parts: it was cut or changed", size_);
  std::string text(bytes, '\0');
  take(offset, std::span(text));
  return text;
}

// The last record of an archive. A comment of any length may follow it.
ZipFile::Directory ZipFile::find_directory() {
  const std::uint64_t searched = std::min(size_, kEndRecord + kLongestComment), begin = size_ - searched;
  const std::string tail = take(begin, searched);
  for (std::uint64_t at = searched < kEndRecord ? 0 : searched - kEndRecord + 1; at-- > 0;) {
    if (mark_at(tail, at) != kEndMark) continue;
    ByteCursor end(std::string_view(tail).substr(at + 4), "the archive");
    end.text(6);  // disk numbers, entries on this disk
    Directory found;
    found.count = end.u16();
    found.bytes = end.u32();
    found.offset = end.u32();
    const std::uint16_t comment = end.u16();
    if (comment == end.left()) return large_directory(begin + at, found);
  }
  fail(ErrorKind::data, "has no list of entries at its end: it was cut short or is not a zip archive");
}

// A pointer to a record with 64-bit numbers may precede the last record of an archive.
ZipFile::Directory ZipFile::large_directory(std::uint64_t end, Directory small) {
  if (end < kLargeLocator) return small;
  const std::string locator = take(end - kLargeLocator, kLargeLocator);
  if (mark_at(locator, 0) != kLargeLocatorMark) return small;
  ByteCursor pointer(std::string_view(locator).substr(8), "the archive");
  const std::string record = take(pointer.u64(), kLargeEnd);
  if (mark_at(record, 0) != kLargeEndMark) fail(ErrorKind::data, "its zip64 record is missing: it was cut or changed");
  ByteCursor figures(std::string_view(record).substr(32), "the archive");
  Directory large;
  large.count = figures.u64();
  large.bytes = figures.u64();
  large.offset = figures.u64();
  return large;
}

void ZipFile::read_directory(const Directory& directory) {
  if (directory.bytes > kLongestDirectory) {
    fail(ErrorKind::data, "its list of entries would have {} bytes, more than {}", directory.bytes, kLongestDirectory);
  }
  const std::string bytes = take(directory.offset, directory.bytes);
  ByteCursor from(bytes, "the list of entries");
  for (std::uint64_t i = 0; i < directory.count; ++i) {
    const DirectoryEntry entry = read_directory_entry(from);
    const bool is_stored = entry.method == 0 && (entry.flags & kEncrypted) == 0;
    if (is_stored && entry.stored != entry.bytes) {
      fail(ErrorKind::data, "its entry '{}' has {} bytes and is stored as {}: it was changed", shown(entry.name), entry.bytes,
           entry.stored);
    }
    if (!entries_.emplace(entry.name, Entry{entry.header, entry.stored, entry.flags, entry.method}).second) {
      fail(ErrorKind::data, "has the entry '{}' twice", shown(entry.name));
    }
  }
  if (from.left() > 0) {
    fail(ErrorKind::data, "its list of {} entries has {} bytes more: it was changed", directory.count, from.left());
  }
}

// An entry's own header may lack the sizes, which then follow the content; it has the name.
std::uint64_t ZipFile::content_of(std::string_view name, const Entry& entry) {
  const std::string bytes = take(entry.header, kLocalHeader);
  ByteCursor lengths(std::string_view(bytes).substr(26), "an entry");
  const std::uint64_t own_name = lengths.u16(), extra = lengths.u16();
  const std::uint64_t begin = entry.header + kLocalHeader + own_name + extra;
  if (mark_at(bytes, 0) != kLocalMark || take(entry.header + kLocalHeader, own_name) != name) {
    fail(ErrorKind::data, "its entry '{}' is not where the list places it", shown(name));
  }
  if (begin > size_ || entry.bytes > size_ - begin) {
    fail(ErrorKind::data, "its entry '{}' would end after the archive, which has {} bytes: it was cut or changed", shown(name),
         size_);
  }
  return begin;
}

}  // namespace millrace

// The cache file: (FileHeader) (entries, a checksum of eight bytes after each) (offsets of the entries by position: index,
// offset). Written once, then read entry by entry.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <unordered_set>
#include <vector>

#include "memory_store.h"
#include "millrace/sample.h"

namespace millrace {

struct FileHeader {
  char magic[8];              // "MRCACHE4"
  std::uint64_t fingerprint;  // source and stages before the cache
  std::uint64_t samples;
  std::uint64_t table;  // offset of the table
  std::uint64_t bytes;  // size of the file
  std::uint64_t check;  // hash of the table
};

struct TableLine {
  std::uint64_t index, offset;
};

// A finished file. Thread-safe.
class CacheReader {
 public:
  struct Found {
    std::span<const std::uint8_t> entry;  // empty if missing or damaged; valid until this thread's next call, for any file
    bool is_damaged = false;
  };

  // Null for a missing or unusable file: then `why` holds the reason. Throws ErrorKind::storage if the system lacks a
  // resource: the file may be valid and must not be replaced.
  static std::unique_ptr<CacheReader> open(const std::string& path, std::uint64_t fingerprint, std::string& why);
  ~CacheReader();
  CacheReader(const CacheReader&) = delete;
  CacheReader& operator=(const CacheReader&) = delete;
  // Reads the entry and verifies its checksum each time. Unreadable entries count as damaged.
  Found find(std::uint64_t index) const;

 private:
  explicit CacheReader(int file) : file_(file) {}
  bool load(const std::string& path, std::uint64_t bytes, std::uint64_t fingerprint, std::string& why);
  bool place(const std::vector<TableLine>& table, std::uint64_t end);  // `end`: end of all entries

  const int file_;
  IndexTable<std::uint32_t> numbers_;  // by sample: number of its entry, from 1; 0 if none
  std::vector<std::uint64_t> begins_;  // beginnings of the entries in sequence, then the end of the last
};

// A file being written under a temporary name, locked while it is written. Thread-safe: writes one entry at a time. Write
// failures are ErrorKind::storage.
class CacheWriter {
 public:
  CacheWriter(std::string path, std::uint64_t fingerprint);  // removes what killed writers have left of this file
  ~CacheWriter();                                            // removes an unfinished file
  CacheWriter(const CacheWriter&) = delete;
  CacheWriter& operator=(const CacheWriter&) = delete;

  // Appends the sample unless it is present or the file is finished. Returns the number of samples in the file.
  std::uint64_t write(const Sample& sample);
  // Renames the file. Returns true in the first call; later calls do nothing.
  bool finish();

 private:
  void put(const void* data, std::size_t bytes, std::uint64_t at);

  const std::string path_;
  std::string temporary_;
  const std::uint64_t fingerprint_;
  std::mutex mutex_;
  int file_ = -1;
  std::uint64_t end_ = sizeof(FileHeader);
  std::vector<std::uint8_t> entry_;
  std::vector<TableLine> table_;
  std::unordered_set<std::uint64_t> indices_;
};

}  // namespace millrace

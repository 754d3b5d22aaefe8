// The cache on disk: (FileHeader) (entries, a checksum of eight bytes after each) (offsets of the entries by position: index,
// offset) - written once, read by entries afterwards.
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
  std::uint64_t fingerprint;  // of what was cached: source and stages
  std::uint64_t samples;
  std::uint64_t table;  // where the offsets begin
  std::uint64_t bytes;  // of the file
  std::uint64_t check;  // hash of the table
};

struct TableLine {
  std::uint64_t index, offset;
};

// A finished file. Thread-safe.
class CacheReader {
 public:
  struct Found {
    std::span<const std::uint8_t> entry;  // empty: not there, or damaged. Valid until this thread asks again, of any file
    bool is_damaged = false;
  };

  // Null when there is no file. `why` says so when there is one that cannot be used. ErrorKind::storage where the system lacks
  // something: such a file may be in order, and must not be replaced.
  static std::unique_ptr<CacheReader> open(const std::string& path, std::uint64_t fingerprint, std::string& why);
  ~CacheReader();
  CacheReader(const CacheReader&) = delete;
  CacheReader& operator=(const CacheReader&) = delete;
  // Reads the entry and compares its checksum, each time. What the disk does not give is damaged, too.
  Found find(std::uint64_t index) const;

 private:
  explicit CacheReader(int file) : file_(file) {}
  bool load(const std::string& path, std::uint64_t bytes, std::uint64_t fingerprint, std::string& why);
  bool place(const std::vector<TableLine>& table, std::uint64_t end);  // `end`: of all entries

  const int file_;
  IndexTable<std::uint32_t> numbers_;  // of a sample's entry, from 1; 0: there is none
  std::vector<std::uint64_t> begins_;  // of the entries, which lie one after the other; then the end of the last one
};

// A file being written under a temporary name, which is locked as long as somebody writes it. Thread-safe: one entry at a time.
// ErrorKind::storage for what the disk refuses.
class CacheWriter {
 public:
  CacheWriter(std::string path, std::uint64_t fingerprint);  // removes what writers that were killed have left of this file
  ~CacheWriter();                                            // an unfinished file is removed
  CacheWriter(const CacheWriter&) = delete;
  CacheWriter& operator=(const CacheWriter&) = delete;

  // Appends the sample, unless it is there or the file is finished. Returns the number of samples in it.
  std::uint64_t write(const Sample& sample);
  // Gives the file its name. Once; later calls do nothing. Returns whether it did.
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

// The journal of --watch: which files were answered, so that a restart repeats none and misses none.
#pragma once

#include <sys/stat.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

namespace millrace {

// A state of a file: its path, size, time of modification and, where file systems keep it, the number of its inode. Another file
// renamed to this path, or other bytes written to it, have another one.
using FileState = std::array<std::uint64_t, 2>;  // a hash
std::string to_string(const FileState& state);   // 32 hexadecimal digits

class FileStates {
 public:
  // Empty for anything but a regular file or a link to one; then errno is 0 or the reason. `info`, unless null, receives the
  // file's.
  std::optional<FileState> of(const std::string& path, struct stat* info = nullptr);
  // Whether a process of this machine has the file open for writing. False if its file system or owner leaves this unknown.
  // REQUIRES: of() was called for this file.
  bool is_being_written(const std::string& path, dev_t device) const;

 private:
  enum class System { disk, nfs, other };
  System system_of(const std::string& path, dev_t device);
  std::map<dev_t, System> systems_;
};

// FOLDER/journal.jsonl, one JSON object a line: answers, each behind a line that names the folder with its files.
//
//   {"folder":"/data/incoming","inode":131074}
//   {"id":"0f3c...","path":"/data/incoming/a.jpg","classes":["star","cross"],"scores":[0.91,0.06]}
//
// Memory: 16 bytes a line. Answers for files that no longer exist are removed when the journal is opened, and whenever it has
// doubled. Those of another folder, or of one that has another inode now (an unmounted disk), are kept.
class WatchJournal {
 public:
  // Makes the journal unless it exists, and cuts off the incomplete last line of a killed program. Throws Error(usage) if another
  // process has it open, and Error(storage).
  WatchJournal(const std::string& folder, FileStates& states);
  ~WatchJournal();
  WatchJournal(const WatchJournal&) = delete;
  WatchJournal& operator=(const WatchJournal&) = delete;

  std::size_t size() const { return old_.size() + recent_.size(); }
  bool has(const FileState& state) const;
  // Answers that follow are about files in this folder. Call it again if another folder took its place.
  void begin(const std::string& folder, std::uint64_t inode);
  // Appends the answer, an object that begins with the state as its "id". Throws Error(storage). REQUIRES: begin().
  void add(const FileState& state, std::string_view answer);
  void sync();  // forces new lines onto the disk
  void compact_if_doubled();

 private:
  void open_file();
  void read();
  void compact();
  void append(std::string_view line);

  const std::string path_;
  FileStates& states_;
  int lock_ = -1, file_ = -1;
  std::string folder_;          // the last line that names a folder; "": none
  std::vector<FileState> old_;  // sorted
  struct Hash {
    std::size_t operator()(const FileState& state) const { return state[0]; }
  };
  std::unordered_set<FileState, Hash> recent_;  // added since
  bool is_synced_ = true;
};

}  // namespace millrace

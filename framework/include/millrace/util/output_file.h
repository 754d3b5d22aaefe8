// Files that survive a crash and a power failure: checkpoints, weights, and output of stages.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "millrace/stage.h"

namespace millrace {

// A new file that replaces `path` when it is complete: readers of `path` see the old file or the whole new one, even after a
// crash. It is written as `path`.new-PID. A missing folder is created. All calls throw Error(storage) naming the file. Not
// thread-safe.
class OutputFile {
 public:
  // When the bytes are forced onto the disk. `later`: for one of many files, which sync_files() then syncs together. Until then a
  // crash of the machine, not of the program, may leave the file incomplete.
  enum class Sync { at_commit, later };

  explicit OutputFile(std::string path, Sync sync = Sync::at_commit);
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;
  ~OutputFile();  // removes the file unless committed or kept

  void write(const void* data, std::size_t bytes);  // appends; buffered
  void write(std::string_view text) { write(text.data(), text.size()); }
  void write_at(std::uint64_t offset, std::string_view bytes);  // REQUIRES: within the bytes written so far
  // Writes and closes the file under its temporary name: failures of a full disk occur here. For files that belong together, seal
  // all, then commit all. REQUIRES: nothing is written afterwards.
  void seal();
  void commit();       // seals it first if necessary
  std::string keep();  // closes an incomplete file under its temporary name and returns the name

 private:
  void flush();
  void write_through(const char* data, std::size_t bytes);
  [[noreturn]] static void failed(const char* what, const std::string& path);

  std::string path_, temporary_, buffer_;
  Sync sync_;
  int file_ = -1;
};

// Files that belong together: all are on disk under temporary names before the first is renamed. A full disk thus never leaves a
// mixture of new and old files.
//
//   OutputFiles files(site);
//   files.add("figures.csv", figures);
//   files.add("classes.csv", classes);
//   files.commit();
//
// During training (StageSite::is_during_training) nothing is thrown: after all files were tried, failures are warned about, and
// the old files stay. `site` outlives this object.
class OutputFiles {
 public:
  OutputFiles() = default;  // outside stages: throws
  explicit OutputFiles(const StageSite& site) : site_(&site) {}
  void add(const std::string& path, std::string_view bytes);                         // writes it
  void add(const std::string& path, const std::function<void(OutputFile&)>& write);  // a large file, in parts
  void commit();

 private:
  void attempt(const std::function<void()>& write);

  const StageSite* site_ = nullptr;
  std::vector<std::unique_ptr<OutputFile>> files_;
  std::string failure_;  // the first failure
};

// Forces all writes to this folder's file system onto its disk. Throws Error(storage).
void sync_files(const std::string& folder);

// The path for a stage's output: `file` in the run's folder unless it is absolute. Tries to write there. Throws Error(usage)
// naming `key` if the run has no folder, Error(storage) if nothing can be written. Leaves nothing behind. For open().
std::string output_path(const StageSite& site, std::string_view key, const std::string& file);

// Likewise for a stage that writes several files into `folder`, including `file`. Removes tables and pictures in it that killed
// programs left incomplete. Returns the folder.
std::string output_folder(const StageSite& site, std::string_view key, const std::string& folder, std::string_view file);

// A field of a CSV file, quoted where RFC 4180 requires it: one line of UTF-8 that no spreadsheet interprets as a formula. Other
// characters are escaped as by utf8_text() (text.h).
void append_csv(std::string& line, std::string_view field);
// A quoted string for a JSON file, as utf8_text(). Characters that could control a terminal are escaped, \u009b.
void append_json(std::string& line, std::string_view text);

}  // namespace millrace

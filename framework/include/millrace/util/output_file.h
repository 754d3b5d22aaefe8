// Files that survive a crash and a loss of power: checkpoints, weights, and what stages write.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "millrace/stage.h"

namespace millrace {

// A new file that takes the place of `path` when it is whole: readers of `path` see the old file or the whole new one, also after
// a crash. It is written as `path`.new-PID. Its folder is made where it is missing. All calls throw Error(storage) that names the
// file. Not thread-safe.
class OutputFile {
 public:
  // When its bytes are forced onto the disk. `later`: for one of many files; after them sync_files() does it for all. Until then
  // a crash of the machine, not of the program, may leave less than the whole file.
  enum class Sync { at_commit, later };

  explicit OutputFile(std::string path, Sync sync = Sync::at_commit);
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;
  ~OutputFile();  // removes what was neither committed nor kept

  void write(const void* data, std::size_t bytes);  // at the end; buffered
  void write(std::string_view text) { write(text.data(), text.size()); }
  void write_at(std::uint64_t offset, std::string_view bytes);  // REQUIRES: within what was written
  // Writes and closes it under its temporary name: what can go wrong with a full disk goes wrong here. For several files that
  // belong together: all are sealed, then all are committed. Nothing may be written afterwards.
  void seal();
  void commit();       // seals it where that was not done
  std::string keep();  // closes it under its temporary name, which it returns: the file is not whole

 private:
  void flush();
  void write_through(const char* data, std::size_t bytes);
  [[noreturn]] static void failed(const char* what, const std::string& path);

  std::string path_, temporary_, buffer_;
  Sync sync_;
  int file_ = -1;
};

// Files that belong together: all are on the disk under temporary names before the first one takes its place. So a full disk
// leaves no file of them beside older ones of the others.
//
//   OutputFiles files(site);
//   files.add("figures.csv", figures);
//   files.add("classes.csv", classes);
//   files.commit();
//
// Beside a training (StageSite::is_beside_training) nothing is thrown: what cannot be written is warned about, once all of them
// were tried, and the files stay as they were. `site` outlives this.
class OutputFiles {
 public:
  OutputFiles() = default;  // not of a stage: throws
  explicit OutputFiles(const StageSite& site) : site_(&site) {}
  void add(const std::string& path, std::string_view bytes);  // writes it
  void add(const std::string& path, const std::function<void(OutputFile&)>& write);  // a large one, part by part
  void commit();

 private:
  void attempt(const std::function<void()>& write);

  const StageSite* site_ = nullptr;
  std::vector<std::unique_ptr<OutputFile>> files_;
  std::string failure_;  // the first one
};

// Forces everything that was written to the file system of this folder onto its disk. Throws Error(storage).
void sync_files(const std::string& folder);

// Where a stage writes: `file` in the run's folder unless it is absolute. Throws Error(usage) that names `key` when the run has
// no folder, Error(storage) when nothing can be written there, which is tried. Leaves nothing. For open().
std::string output_path(const StageSite& site, std::string_view key, const std::string& file);

// The same for a stage that writes several files into `folder`, of which `file` is one. Removes tables and pictures in it that
// killed programs did not finish. Returns the folder.
std::string output_folder(const StageSite& site, std::string_view key, const std::string& folder, std::string_view file);

// A field of a CSV file, in quotes where RFC 4180 asks for them: one line of UTF-8 that no spreadsheet takes for a formula. What
// else the text has is escaped as by utf8_text() (text.h).
void append_csv(std::string& line, std::string_view field);
// A text of a JSON file, with its quotes; utf8_text() of it. What could control a terminal is escaped, \u009b.
void append_json(std::string& line, std::string_view text);

}  // namespace millrace

// Tar shards, written so that no reader ever sees partial ones.
#pragma once

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace millrace {

// Appends a member to an archive in memory: ustar, without owner or time, so that equal content gives equal bytes. REQUIRES: a
// name of at most 100 bytes, less than 8 GiB of content.
void append_member(std::string& archive, std::string_view name, std::string_view content);

// Writes shard-000000.tar, ... into a folder. Until finish(), they have hidden names, ".shard-000000.tar.part"; without finish(),
// the destructor removes them, and the folders that the constructor made. The next one removes the remains of a killed one,
// except ".shard-000000.tar.whole". Not thread-safe. Errors: ErrorKind::usage for a folder that is not empty, ErrorKind::storage
// for write failures.
class ShardWriter {
 public:
  // `bytes`: a shard ends with the sample that reaches this size. `force`: accepts a folder that is not empty.
  ShardWriter(std::filesystem::path folder, std::uint64_t bytes, bool force);
  ~ShardWriter();
  ShardWriter(const ShardWriter&) = delete;
  ShardWriter& operator=(const ShardWriter&) = delete;

  void add(std::string_view members);  // one sample's, from append_member()

  // Gives the shards their names and writes classes.txt, one line per class (none: no file). Removes shards, indices and classes
  // of an earlier set in this folder, once all of the new one is on disk as ".shard-000000.tar.whole". From then on these remain
  // after any failure; the error names them. The next finish() removes them with its earlier set.
  void finish(const std::vector<std::string>& classes);

  std::size_t shards() const { return shards_; }
  std::uint64_t bytes() const { return total_; }

 private:
  struct CloseFile {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  std::filesystem::path hidden(const std::string& name, std::string_view ending) const;
  std::vector<std::filesystem::path> all_hidden(std::string_view ending) const;  // in any set
  void open(std::string name);
  void close();
  void end();  // ends the shard
  void write(std::string_view bytes);
  void rename(const std::filesystem::path& from, const std::filesystem::path& to) const;
  void replace_earlier() const;
  void remove_earlier() const;

  std::filesystem::path folder_;
  std::uint64_t most_;
  std::vector<std::filesystem::path> made_;  // folders, innermost first
  std::vector<std::string> names_;           // all files so far; the last one is open while file_ is
  std::unique_ptr<std::FILE, CloseFile> file_;
  std::size_t shards_ = 0;  // complete ones
  std::uint64_t in_shard_ = 0, total_ = 0;
  bool is_whole_ = false;  // and on disk
};

}  // namespace millrace

// What a disk may hold of the calls that a program made: all of them after a kill, and after a loss of power those that were
// synced and any of the others.
//
// The data of a file is safe after fsync() of the file. A new name, a rename and a removal are safe after fsync() of the folder
// in which they are. Each of these happens or does not; of an unsynced write any of its blocks may be there.
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "replay_log.h"

namespace millrace::test {

class ReplayDisk {
 public:
  explicit ReplayDisk(const std::vector<LoggedCall>& calls);

  std::size_t calls() const { return calls_; }
  // Makes what is left after the first `cut` calls in `folder`, which is empty.
  void after_kill(std::size_t cut, const std::filesystem::path& folder) const;
  void after_power_loss(std::size_t cut, std::mt19937_64& random, const std::filesystem::path& folder) const;

 private:
  static constexpr std::size_t kBlock = 4096;
  static constexpr int kNone = -1;
  // Names of a folder that change at once: to a node, or to none.
  struct Name {
    int folder;
    std::string name;
    int node;
  };
  struct Change {
    std::size_t call;         // that made it
    std::size_t safe;         // the call that made it safe; the number of calls: none did
    std::vector<Name> names;  // or a write:
    int file = kNone;
    std::size_t offset = 0;
    std::string data = {};
    bool cuts = false;  // the file gets the length `offset`
  };
  struct Node {
    bool is_folder = false;
    std::string data;
    std::map<std::string, int> names;
  };

  void take(std::size_t at, const LoggedCall& call);
  void open(std::size_t at, const LoggedCall& call);
  void move(std::size_t at, const LoggedCall& call);
  void sync(std::size_t at, int node);
  void add(Change change);
  int make(bool is_folder);
  int find(const std::string& path) const;
  Name place(const std::string& path, int node) const;
  using Blocks = std::function<bool()>;  // whether a block of a write is there
  static void apply(const Change& change, std::vector<Node>& nodes, const Blocks& there);
  std::vector<Node> empty() const;
  static void write(const std::vector<Node>& nodes, int node, const std::filesystem::path& path);

  std::size_t calls_;
  std::vector<Change> changes_;
  std::vector<Node> nodes_{Node{true, {}, {}}};  // as they are after all calls so far; 0 is the folder itself
  std::map<int, int> open_;                      // descriptor to node
};

// A folder in memory where the system has such a place: reading a checkpoint asks the disk itself, and tests read thousands. It
// is not made here, and removed with the object.
class MemoryFolder {
 public:
  MemoryFolder();
  MemoryFolder(const MemoryFolder&) = delete;
  MemoryFolder& operator=(const MemoryFolder&) = delete;
  ~MemoryFolder();
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace millrace::test

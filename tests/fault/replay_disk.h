// Possible states of a disk after a program's calls: all calls after a kill; after a power failure, the synced ones and any
// subset of the others.
//
// A file's data are safe after fsync() of the file. A new name, a rename and a removal are safe after fsync() of their folder.
// Each of these happens or does not; any blocks of an unsynced write may be present.
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
  // Makes the state after the first `cut` calls in `folder`, which is empty.
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
    std::size_t call;         // that changed it
    std::size_t safe;         // the call that made it safe; the number of calls if none did
    std::vector<Name> names;  // or a write:
    int file = kNone;
    std::size_t offset = 0;
    std::string data = {};
    bool cuts = false;  // truncates the file to `offset`
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
  using Blocks = std::function<bool()>;  // whether a block of a write is present
  static void apply(const Change& change, std::vector<Node>& nodes, const Blocks& there);
  std::vector<Node> empty() const;
  static void write(const std::vector<Node>& nodes, int node, const std::filesystem::path& path);

  std::size_t calls_;
  std::vector<Change> changes_;
  std::vector<Node> nodes_{Node{true, {}, {}}};  // the state after all calls so far; 0 is the folder itself
  std::map<int, int> open_;                      // descriptor to node
};

// A folder in memory if the system supports it: reading a checkpoint bypasses the cache, and tests read thousands. Does not make
// it; removed with the object.
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

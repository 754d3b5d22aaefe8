// Objects cached on the local disk, up to a limit.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <span>
#include <string>

namespace millrace::s3 {

// Identifies an object: a hash of its URL and ETag.
using ObjectId = std::array<std::uint8_t, 16>;
ObjectId object_id(const std::string& http_url, const std::string& etag);

// Files <folder>/<two digits>/<id> for whole objects, <id>-<offset>-<size> for ranges. Each begins with its payload's size and
// SHA-256; a damaged file is removed and counts as absent. New files are written under another name and renamed, so that any
// number of processes may share a folder. Beyond the limit, the least recently used files are removed: each use sets the
// modification time. Sizes are summed at the first store and whenever this process has written another sixteenth of the limit, so
// n processes stay below (1 + n/16) times the limit. If the disk is full or fails, objects are not cached. Thread-safe.
class DiskCache {
 public:
  DiskCache(std::string folder, std::uint64_t limit);  // creates the folder; ErrorKind::usage on failure

  static std::string name_of(const ObjectId& id);
  static std::string name_of(const ObjectId& id, std::uint64_t offset, std::size_t size);

  // `room` receives the size and returns the destination; false if the entry is missing or damaged.
  bool load(const std::string& name, const std::function<std::span<std::uint8_t>(std::uint64_t)>& room);
  void store(const std::string& name, std::span<const std::uint8_t> bytes);

 private:
  std::string path_of(const std::string& name) const;
  void make_room(std::uint64_t written);
  std::uint64_t sweep();  // removes the excess; returns the remaining bytes

  std::string folder_;
  std::uint64_t limit_;
  std::mutex mutex_;
  std::uint64_t unswept_;  // bytes written since the last sweep; guarded by mutex_
};

}  // namespace millrace::s3

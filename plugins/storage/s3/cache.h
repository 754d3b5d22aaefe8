// Objects kept on the local disk, within a size.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <span>
#include <string>

namespace millrace::s3 {

// What an object is known by: its URL and its ETag, hashed.
using ObjectId = std::array<std::uint8_t, 16>;
ObjectId object_id(const std::string& http_url, const std::string& etag);

// Files <folder>/<two digits>/<id> for whole objects, <id>-<offset>-<size> for ranges. Each begins with its payload's size and
// SHA-256; one that does not hold what it says is removed and counts as absent. New ones are written under another name and
// renamed, so that any number of processes may share a folder. When the files exceed the limit, those used longest ago go: each
// use sets the modification time. Sizes are summed up at the first store and after every sixteenth of the limit that this process
// has written, so n processes stay below (1 + n/16) times the limit. A disk that is full or fails leaves objects uncached.
// Thread-safe.
class DiskCache {
 public:
  DiskCache(std::string folder, std::uint64_t limit);  // makes the folder; ErrorKind::usage when it cannot

  static std::string name_of(const ObjectId& id);
  static std::string name_of(const ObjectId& id, std::uint64_t offset, std::size_t size);

  // `room` gets the size and says where the bytes go; false when there is no such entry, or not a sound one.
  bool load(const std::string& name, const std::function<std::span<std::uint8_t>(std::uint64_t)>& room);
  void store(const std::string& name, std::span<const std::uint8_t> bytes);

 private:
  std::string path_of(const std::string& name) const;
  void make_room(std::uint64_t written);
  std::uint64_t sweep();  // removes what is too much; returns the bytes that stay

  std::string folder_;
  std::uint64_t limit_;
  std::mutex mutex_;
  std::uint64_t unswept_;  // bytes written since the last sweep; under mutex_
};

}  // namespace millrace::s3

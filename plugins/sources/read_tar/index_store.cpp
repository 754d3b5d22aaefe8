#include "index_store.h"

#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <optional>

#include "millrace/error.h"
#include "millrace/sample.h"
#include "millrace/util/cache_folder.h"
#include "millrace/util/paths.h"

namespace millrace {

namespace fs = std::filesystem;

namespace {

struct CloseFile {
  void operator()(std::FILE* file) const { std::fclose(file); }
};
using File = std::unique_ptr<std::FILE, CloseFile>;

// The largest index to read. An index entry is shorter than the sample's members in the shard; only numbers may be twice as long
// as their text.
std::uint64_t most_bytes(const Shard& shard) { return 2 * shard.bytes + (std::uint64_t{1} << 20U); }

// Empty if the file is missing, unreadable, or larger than `most` bytes.
std::optional<std::vector<std::uint8_t>> read_file(const fs::path& path, std::uint64_t most) {
  const File file(std::fopen(path.c_str(), "rb"));
  std::error_code error;
  const std::uintmax_t size = file ? fs::file_size(path, error) : 0;
  if (!file || error || size > most) return std::nullopt;
  std::vector<std::uint8_t> bytes(size);
  if (std::fread(bytes.data(), 1, size, file.get()) != size) return std::nullopt;
  return bytes;
}

// Writes under a hidden name first: listings skip it, and no reader sees a partial file. Returns false, with errno, on failure.
bool write_file(const fs::path& path, std::span<const std::uint8_t> bytes) {
  static std::atomic<unsigned> number{0};
  const fs::path temporary = path.parent_path() / fmt::format(".{}.{}.{}", path.filename().string(), getpid(), number++);
  File file(std::fopen(temporary.c_str(), "wb"));
  if (!file) return false;
  const bool written = std::fwrite(bytes.data(), 1, bytes.size(), file.get()) == bytes.size();
  if (std::fclose(file.release()) == 0 && written && std::rename(temporary.c_str(), path.c_str()) == 0) return true;
  const int why = errno;
  std::remove(temporary.c_str());
  errno = why;
  return false;
}

}  // namespace

IndexStore::IndexStore(IndexSettings settings, std::function<void(const std::string&)> cannot_keep)
    : settings_(std::move(settings)), cannot_keep_(std::move(cannot_keep)) {}

std::vector<fs::path> IndexStore::places(const Shard& shard) const {
  std::vector<fs::path> paths;
  if (shard.version.empty()) return paths;  // another shard may have the same size, which is a multiple of 10,240
  std::string name = shard.url;
  if (url_scheme(shard.url) == "file") {
    name = file_url_path(name);
    paths.emplace_back(name + ".index");
    std::error_code ignored;
    name = fs::absolute(name, ignored).lexically_normal().string();
  }
  if (const fs::path cache = cache_folder("tar"); !cache.empty()) {
    paths.push_back(cache / fmt::format("{}-{:016x}.index", fs::path(name).filename().string(), hash_text(name)));
  }
  return paths;
}

TarIndex IndexStore::open(const Shard& shard) const {
  const IndexKey key = index_key(shard.bytes, shard.version, settings_);
  const std::vector<fs::path> paths = places(shard);
  for (const fs::path& path : paths) {
    std::optional<std::vector<std::uint8_t>> bytes = read_file(path, most_bytes(shard));
    if (!bytes) continue;
    try {
      return {std::move(*bytes), key};
    } catch (const Error&) {
      // has another version, or is damaged: it is rebuilt
    }
  }
  Window window(
      [&](std::uint64_t offset, std::size_t size, std::uint8_t* out) { shard.storage->read(shard.url, offset, size, out); },
      shard.bytes);
  TarIndex index = build_index(window, key, settings_);
  std::string why = shard.version.empty()
                        ? fmt::format("'{}' has no version (ETag, Last-Modified) by which a change shows", shard.url)
                        : "there is no cache folder: none of MILLRACE_CACHE, XDG_CACHE_HOME and HOME is set";
  for (const fs::path& path : paths) {
    std::error_code ignored;
    fs::create_directories(path.parent_path(), ignored);
    if (write_file(path, index.bytes())) return index;
    why = fmt::format("'{}': {}", path.string(), std::strerror(errno));
  }
  cannot_keep_(why);
  return index;
}

}  // namespace millrace

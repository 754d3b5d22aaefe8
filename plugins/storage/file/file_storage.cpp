#include "file_storage.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <new>
#include <utility>

#include "millrace/error.h"
#include "millrace/sample.h"
#include "millrace/util/host_memory.h"
#include "millrace/util/output_file.h"
#include "millrace/util/text.h"
#include "walk.h"

namespace millrace {

namespace {

void require_file(const struct stat& status, const char* path) {
  if (S_ISREG(status.st_mode)) return;
  fail(ErrorKind::data, "'{}' is {}, not a file", line_text(path), S_ISDIR(status.st_mode) ? "a folder" : "a device");
}

// An open file, closed by the destructor.
class File {
 public:
  explicit File(const char* path) : path_(path) {
    do {
      handle_ = ::open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);  // does not wait for a pipe's other end
    } while (handle_ < 0 && errno == EINTR);
    if (handle_ < 0) refuse("open", path);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  ~File() { ::close(handle_); }

  struct stat status() const {
    struct stat status {};
    if (::fstat(handle_, &status) != 0) refuse("look at", path_);
    require_file(status, path_);
    return status;
  }

  // Reads up to `size` bytes; fewer only at the end of the file.
  std::size_t read(std::uint64_t offset, std::size_t size, std::uint8_t* out) const {
    std::size_t have = 0;
    while (have < size) {
      const ssize_t got = ::pread(handle_, out + have, size - have, static_cast<off_t>(offset + have));
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) refuse("read", path_);
      if (got == 0) break;
      have += static_cast<std::size_t>(got);
    }
    return have;
  }

 private:
  const char* path_;
  int handle_ = -1;
};

class FileWriter final : public Storage::Writer {
 public:
  explicit FileWriter(std::string path) : file_(std::move(path)) {}
  void write(const void* data, std::size_t bytes) override { file_.write(data, bytes); }
  void commit() override { file_.commit(); }

 private:
  OutputFile file_;
};

}  // namespace

Storage::Kind FileStorage::look(const std::string& url) {
  std::string decoded;
  const char* path = path_of(url, decoded);
  struct stat status {};
  if (::stat(path, &status) == 0) return S_ISDIR(status.st_mode) ? Kind::folder : Kind::object;
  refuse_path("look at", path);
}

void FileStorage::list(const std::string& url, const std::function<void(Object)>& found) {
  list_without(
      url, [](std::string_view) { return false; }, found);
}

void FileStorage::list_without(const std::string& url, const std::function<bool(std::string_view)>& leaves_out,
                               const std::function<void(Object)>& found) {
  std::string decoded;
  walk(path_of(url, decoded), leaves_out, found);
}

Storage::Object FileStorage::stat(const std::string& url) {
  std::string decoded;
  const char* path = path_of(url, decoded);
  struct stat status {};
  if (::stat(path, &status) != 0) {
    const std::filesystem::path name = path;
    // Thousands of a list's files may be missing: searching for alternatives pays only for a missing folder.
    std::error_code ignored;
    const int error = std::exchange(errno, 0);
    const bool folder_is_there = std::filesystem::is_directory(name.has_parent_path() ? name.parent_path() : ".", ignored);
    errno = error;
    folder_is_there ? refuse("look at", path) : refuse_path("look at", path);
  }
  require_file(status, path);
  const std::string_view name = path;
  return {std::string(name.substr(name.rfind('/') + 1)), static_cast<std::uint64_t>(status.st_size), version_of(status), false};
}

void FileStorage::read(const std::string& url, ByteBuffer& out) {
  std::string decoded;
  const char* path = path_of(url, decoded);
  const File file(path);
  const auto size = static_cast<std::size_t>(file.status().st_size);
  if (!fits_in_host_memory(size)) {  // a sparse file can have any size
    fail(ErrorKind::data, "'{}' has {} bytes, more than there is memory", line_text(path), size);
  }
  try {
    out.resize(size);
  } catch (const std::bad_alloc&) {
    throw current_error().in(fmt::format("'{}' of {} bytes", line_text(path), size));
  }
  out.resize(file.read(0, size, out.data()));
}

void FileStorage::read(const std::string& url, std::uint64_t offset, std::size_t size, std::uint8_t* out) {
  std::string decoded;
  const char* path = path_of(url, decoded);
  const File file(path);
  const auto end = static_cast<std::uint64_t>(file.status().st_size);
  if (offset > end || size > end - offset || file.read(offset, size, out) < size) {
    fail(ErrorKind::storage, "'{}' has {} bytes: {} from byte {} on were asked for", line_text(path), end, size, offset);
  }
}

std::unique_ptr<Storage::Writer> FileStorage::write(const std::string& url) {
  std::string decoded;
  return std::make_unique<FileWriter>(path_of(url, decoded));
}

void FileStorage::remove(const std::string& url) {
  std::string decoded;
  const char* path = path_of(url, decoded);
  if (::unlink(path) != 0 && errno != ENOENT) refuse("remove", path);
}

bool FileStorage::is_empty(const std::string& url) {
  std::string decoded;
  const std::filesystem::path path = path_of(url, decoded);
  std::error_code error;
  if (!std::filesystem::exists(path, error) && !error) return true;
  const bool is_empty = std::filesystem::is_directory(path, error) && std::filesystem::is_empty(path, error);
  if (error) {
    errno = error.value();
    refuse("look into", path.string());
  }
  return is_empty;
}

}  // namespace millrace

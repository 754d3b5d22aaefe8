#include "file_storage.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <memory>
#include <new>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "millrace/error.h"
#include "millrace/plugin.h"
#include "millrace/util/data_names.h"
#include "millrace/util/host_memory.h"
#include "millrace/util/output_file.h"
#include "millrace/util/paths.h"
#include "millrace/util/text.h"

namespace millrace {

namespace {

bool is_for_good(int error) {
  switch (error) {
    case ENOENT:
    case ENOTDIR:
    case EACCES:
    case EPERM:
    case ELOOP:
    case ENAMETOOLONG:
    case EISDIR: return true;
    default: return false;
  }
}

// A network file system's server, or the program that mounts a bucket, does not respond.
bool is_unreachable(int error) {
  switch (error) {
    case ETIMEDOUT:
    case ENOTCONN:
    case ESTALE:
    case ECONNREFUSED:
    case ECONNRESET:
    case EHOSTDOWN:
    case EHOSTUNREACH:
    case ENETDOWN:
    case ENETUNREACH: return true;
    default: return false;
  }
}

// Throws the error in errno for `path`: "cannot open 'a/b': Permission denied".
[[noreturn]] void refuse(const char* what, const std::string& path) {
  const int error = errno;
  std::error_code no_link;
  const std::filesystem::path target = std::filesystem::read_symlink(path, no_link);
  if (error == ENOENT && !no_link)
    fail(ErrorKind::data, "'{}' is a link to '{}', which does not exist", line_text(path), line_text(target.string()));
  const ErrorKind kind = is_for_good(error)      ? ErrorKind::data
                         : is_unreachable(error) ? ErrorKind::unreachable
                                                 : ErrorKind::storage;
  fail(kind, "cannot {} '{}': {}", what, line_text(path), std::strerror(error));
}

// The same; for a missing path it also names the missing part and similar names. A dangling link counts as existing.
[[noreturn]] void refuse_path(const char* what, const std::string& path) {
  if (errno != ENOENT) refuse(what, path);
  namespace fs = std::filesystem;
  std::error_code ignored;
  const char* const home = path.starts_with("~/") ? std::getenv("HOME") : nullptr;  // NOLINT(concurrency-mt-unsafe)
  if (home != nullptr) {
    fail(ErrorKind::data, "'{}' does not exist: only shells expand ~; write '{}{}', or ${{env.HOME}}{}", line_text(path), home,
         line_text(path.substr(1)), line_text(path.substr(1)));
  }
  fs::path parent = fs::absolute(path, ignored).lexically_normal();
  std::string missing;
  while (parent.has_relative_path() && !fs::exists(parent, ignored)) {
    if (fs::is_symlink(parent, ignored)) refuse(what, parent.string());
    if (parent.has_filename()) missing = parent.filename().string();
    parent = parent.parent_path();
  }
  std::vector<std::string> names;
  for (fs::directory_iterator entry(parent, ignored), end; !ignored && entry != end; entry.increment(ignored)) {
    names.push_back(entry->path().filename().string());
  }
  const auto nearest = nearest_name(missing, names);
  fail(ErrorKind::data, "'{}' does not exist: '{}' is missing in '{}'{}", line_text(path), line_text(missing),
       line_text(parent.string()), nearest ? fmt::format(" (did you mean '{}'?)", line_text(*nearest)) : "");
}

std::string version_of(const struct stat& status) {
  const std::int64_t nanoseconds = std::int64_t{status.st_mtim.tv_sec} * 1'000'000'000 + status.st_mtim.tv_nsec;
  return fmt::format("{:x}-{:x}", nanoseconds, status.st_size);
}

struct CloseFolder {
  void operator()(DIR* folder) const { closedir(folder); }
};
using Folder = std::unique_ptr<DIR, CloseFolder>;

// Finds the files below a folder, in the order of whole paths.
class Walk {
 public:
  Walk(const std::string& root, const std::function<bool(std::string_view)>& leaves_out,
       const std::function<void(Storage::Object)>& found)
      : path_(root), leaves_out_(leaves_out), found_(found) {
    while (path_.size() > 1 && path_.back() == '/') path_.pop_back();
    root_ = path_ == "/" ? 1 : path_.size() + 1;
  }

  // Walks path_ and the folders below it; false if nothing was found.
  bool folder() {
    const std::vector<Entry> entries = scan();
    const bool has_hidden = has_hidden_;  // saved: subfolders set their own
    const std::size_t length = path_.size();
    for (const Entry& entry : entries) {
      if (path_.back() != '/') path_ += '/';
      path_.append(entry.name, 0, entry.name.size() - (entry.is_folder ? 1 : 0));
      const std::string name = path_.substr(root_);
      if (leaves_out_(name)) {
        // not opened either
      } else if (!entry.is_folder) {
        found_({name, entry.bytes, entry.version, entry.is_dangling});
      } else if (!folder()) {
        found_({name + '/', 0, {}, false, has_hidden_});
      }
      path_.resize(length);
    }
    parents_.pop_back();
    has_hidden_ = has_hidden;
    return !entries.empty();
  }

 private:
  struct Entry {
    std::string name;  // a folder's name ends in '/', which gives the order of whole paths
    bool is_folder = false;
    std::uint64_t bytes = 0;
    std::string version;
    bool is_dangling = false;
  };
  struct Parent {
    dev_t device;
    ino_t inode;
    std::size_t length;  // length of its path
  };

  Folder enter() {
    Folder folder(opendir(path_.c_str()));
    struct stat status {};
    if (!folder && errno == ENOTDIR) {
      const std::string remedy = remedy_for(path_);
      fail(ErrorKind::data, "'{}' is not a folder{}{}", line_text(path_), remedy.empty() ? "" : ", but ", remedy);
    }
    if (!folder) refuse_path("open folder", path_);
    if (fstat(dirfd(folder.get()), &status) != 0) refuse("access", path_);
    for (const Parent& parent : parents_) {
      if (parent.device != status.st_dev || parent.inode != status.st_ino) continue;
      fail(ErrorKind::data, "folder '{}' is '{}' again: a link leads back", line_text(path_),
           line_text(path_.substr(0, parent.length)));
    }
    parents_.push_back({status.st_dev, status.st_ino, path_.size()});
    return folder;
  }

  // Files and folders in path_, sorted.
  std::vector<Entry> scan() {
    const Folder folder = enter();
    std::vector<Entry> result;
    has_hidden_ = false;
    errno = 0;
    while (const dirent* entry = readdir(folder.get())) {
      const std::string_view name = entry->d_name;
      if (name == "." || name == "..") continue;
      if (name.front() == '.' || is_system_folder(name)) {
        has_hidden_ = true;
        continue;
      }
      struct stat status {};
      if (fstatat(dirfd(folder.get()), entry->d_name, &status, 0) != 0) {
        if (errno != ENOENT && errno != ELOOP) refuse("access", path_ + '/' + entry->d_name);
        result.push_back({entry->d_name, false, 0, {}, true});
      } else if (S_ISDIR(status.st_mode)) {
        result.push_back({std::string(entry->d_name) + '/', true, 0, {}, false});
      } else if (S_ISREG(status.st_mode)) {
        result.push_back({entry->d_name, false, static_cast<std::uint64_t>(status.st_size), version_of(status), false});
      }
      errno = 0;
    }
    if (errno != 0) refuse("list folder", path_);
    std::sort(result.begin(), result.end(), [](const Entry& a, const Entry& b) { return a.name < b.name; });
    return result;
  }

  std::string path_;
  std::size_t root_;  // offset in path_ of names below the root
  const std::function<bool(std::string_view)>& leaves_out_;
  const std::function<void(Storage::Object)>& found_;
  bool has_hidden_ = false;  // in the last folder scanned
  std::vector<Parent> parents_;
};

// The path in a URL, copied only if it has escapes: valid as long as the URL and `decoded`, which holds such a copy.
const char* path_of(const std::string& url, std::string& decoded) {
  if (url.empty()) fail(ErrorKind::usage, "the name of a file is empty");
  if (url.find('\0') != url.npos) fail(ErrorKind::usage, "'{}' has a zero byte in it", url.c_str());
  if (url.starts_with("file://")) {
    constexpr std::size_t kScheme = 7;
    const bool is_plain = url.find('%') == url.npos && url.size() > kScheme && url[kScheme] == '/';
    if (is_plain) return url.c_str() + kScheme;  // avoids an allocation per sample
    decoded = file_url_path(url);
    return decoded.c_str();
  }
  if (url_scheme(url) != "file") fail(ErrorKind::usage, "'{}' does not name a file", url);
  return url.c_str();
}

void require_file(const struct stat& status, const char* path) {
  if (S_ISREG(status.st_mode)) return;
  fail(ErrorKind::data, "'{}' is {}, not a file", line_text(path), S_ISDIR(status.st_mode)    ? "a folder"
       : S_ISFIFO(status.st_mode) ? "a pipe"
                                  : "a device");
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
    if (::fstat(handle_, &status) != 0) refuse("access", path_);
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

Storage::Kind FileStorage::kind(const std::string& url) {
  std::string decoded;
  const char* path = path_of(url, decoded);
  struct stat status {};
  if (::stat(path, &status) == 0) return S_ISDIR(status.st_mode) ? Kind::folder : Kind::object;
  refuse_path("access", path);
}

void FileStorage::list(const std::string& url, const std::function<void(Object)>& found) {
  list_without(
      url, [](std::string_view) { return false; }, found);
}

void FileStorage::list_without(const std::string& url, const std::function<bool(std::string_view)>& leaves_out,
                               const std::function<void(Object)>& found) {
  std::string decoded;
  Walk(path_of(url, decoded), leaves_out, found).folder();
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
    folder_is_there ? refuse("access", path) : refuse_path("access", path);
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
    fail(ErrorKind::data, "'{}' has {} bytes, more than fits in memory", line_text(path), size);
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
    fail(ErrorKind::storage, "'{}' has {} bytes: {} from byte {} on were requested", line_text(path), end, size, offset);
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

MILLRACE_PLUGIN("storage_file", "1.0", "Files of this machine.") {
  registry.add(
      millrace::StorageType{{"file", "local files: a path, or file:///path"}, std::make_shared<millrace::FileStorage>()});
}

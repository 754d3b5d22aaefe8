// For LD_PRELOAD: overrides the C library's functions that change files. README.md lists them, and the variables.
#include <dirent.h>
#include <dlfcn.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cstdarg>
#include <cstdio>
#include <utility>

#include "fault_files.h"

using fault_files::Faults;

namespace {

template <class Open>
int opened(int folder, const char* path, int flags, Open open) {
  Faults& faults = Faults::get();
  std::string watched = faults.watched(folder, path);
  if (watched.empty()) {
    const int descriptor = open();
    faults.watch(descriptor, false);
    return descriptor;
  }
  const auto make = [&](std::string_view) { return static_cast<ssize_t>(open()); };
  const int descriptor = static_cast<int>(faults.handle({.name = "open", .flags = flags, .path = std::move(watched)}, make));
  faults.watch(descriptor, true);
  return descriptor;
}

template <class Open>
FILE* opened_stream(const char* path, const char* mode, Open open) {
  const std::string_view how = mode;
  int flags = how.find('+') != std::string_view::npos ? O_RDWR : how.starts_with('r') ? O_RDONLY : O_WRONLY;
  if (how.starts_with('w')) flags |= O_CREAT | O_TRUNC;
  if (how.starts_with('a')) flags |= O_CREAT | O_APPEND;
  FILE* stream = nullptr;
  opened(AT_FDCWD, path, flags, [&] {
    stream = open();
    return stream == nullptr ? -1 : ::fileno(stream);
  });
  return stream;
}

template <class Make>
int on_path(const char* name, int folder, const char* path, Make make) {
  std::string watched = Faults::get().watched(folder, path);
  if (watched.empty()) return make();
  const auto call = [&](std::string_view) { return static_cast<ssize_t>(make()); };
  return static_cast<int>(Faults::get().handle({.name = name, .path = std::move(watched)}, call));
}

template <class Make>
int on_paths(const char* name, std::pair<int, const char*> from, std::pair<int, const char*> to, unsigned flags, Make make) {
  std::string source = Faults::get().watched(from.first, from.second), target = Faults::get().watched(to.first, to.second);
  if (source.empty() && target.empty()) return make();
  const auto call = [&](std::string_view) { return static_cast<ssize_t>(make()); };
  return static_cast<int>(Faults::get().handle(
      {.name = name, .flags = static_cast<int>(flags), .path = std::move(source), .second = std::move(target)}, call));
}

template <class Make>
int on_descriptor(const char* name, int descriptor, std::int64_t offset, Make make) {
  if (!Faults::get().watches(descriptor)) return make();
  const auto call = [&](std::string_view) { return static_cast<ssize_t>(make()); };
  return static_cast<int>(Faults::get().handle({.name = name, .descriptor = descriptor, .offset = offset}, call));
}

// Position of the next byte.
std::int64_t position(int descriptor) {
  if ((::fcntl(descriptor, F_GETFL) & O_APPEND) != 0) {
    struct stat status {};
    return ::fstat(descriptor, &status) == 0 ? status.st_size : 0;
  }
  return ::lseek(descriptor, 0, SEEK_CUR);
}

mode_t mode_of(int flags, va_list list) {
  return (flags & O_CREAT) != 0 || (flags & O_TMPFILE) == O_TMPFILE ? va_arg(list, mode_t) : 0;
}

}  // namespace

#define WITH_MODE(mode)                     \
  va_list list;                             \
  va_start(list, flags);                    \
  const mode_t mode = mode_of(flags, list); \
  va_end(list)

extern "C" {

int open(const char* path, int flags, ...) {
  REAL(open);
  WITH_MODE(mode);
  return opened(AT_FDCWD, path, flags, [&] { return real(path, flags, mode); });
}

int open64(const char* path, int flags, ...) {
  REAL(open64);
  WITH_MODE(mode);
  return opened(AT_FDCWD, path, flags, [&] { return real(path, flags, mode); });
}

int openat(int folder, const char* path, int flags, ...) {
  REAL(openat);
  WITH_MODE(mode);
  return opened(folder, path, flags, [&] { return real(folder, path, flags, mode); });
}

int openat64(int folder, const char* path, int flags, ...) {
  REAL(openat64);
  WITH_MODE(mode);
  return opened(folder, path, flags, [&] { return real(folder, path, flags, mode); });
}

int creat(const char* path, mode_t mode) {
  REAL(creat);
  return opened(AT_FDCWD, path, O_WRONLY | O_CREAT | O_TRUNC, [&] { return real(path, mode); });
}

int creat64(const char* path, mode_t mode) {
  REAL(creat64);
  return opened(AT_FDCWD, path, O_WRONLY | O_CREAT | O_TRUNC, [&] { return real(path, mode); });
}

FILE* fopen(const char* path, const char* mode) {
  REAL(fopen);
  return opened_stream(path, mode, [&] { return real(path, mode); });
}

FILE* fopen64(const char* path, const char* mode) {
  REAL(fopen64);
  return opened_stream(path, mode, [&] { return real(path, mode); });
}

ssize_t write(int descriptor, const void* data, size_t bytes) {
  REAL(write);
  if (!Faults::get().watches(descriptor)) return real(descriptor, data, bytes);
  return Faults::get().handle({.name = "write",
                               .descriptor = descriptor,
                               .offset = position(descriptor),
                               .data = {static_cast<const char*>(data), bytes}},
                              [&](std::string_view piece) { return real(descriptor, piece.data(), piece.size()); });
}

ssize_t writev(int descriptor, const iovec* pieces, int count) {
  REAL(writev);
  if (!Faults::get().watches(descriptor)) return real(descriptor, pieces, count);
  std::string all;
  for (int i = 0; i < count; ++i) all.append(static_cast<const char*>(pieces[i].iov_base), pieces[i].iov_len);
  return write(descriptor, all.data(), all.size());
}

static ssize_t written_at(decltype(&::pwrite) real, int descriptor, const void* data, size_t bytes, off_t offset) {
  if (!Faults::get().watches(descriptor)) return real(descriptor, data, bytes, offset);
  return Faults::get().handle(
      {.name = "write", .descriptor = descriptor, .offset = offset, .data = {static_cast<const char*>(data), bytes}},
      [&](std::string_view piece) { return real(descriptor, piece.data(), piece.size(), offset); });
}

ssize_t pwrite(int descriptor, const void* data, size_t bytes, off_t offset) {
  REAL(pwrite);
  return written_at(real, descriptor, data, bytes, offset);
}

ssize_t pwrite64(int descriptor, const void* data, size_t bytes, off64_t offset) {
  REAL(pwrite);
  return written_at(real, descriptor, data, bytes, offset);
}

int fsync(int descriptor) {
  REAL(fsync);
  return on_descriptor("fsync", descriptor, 0, [&] { return real(descriptor); });
}

int fdatasync(int descriptor) {
  REAL(fdatasync);
  return on_descriptor("fsync", descriptor, 0, [&] { return real(descriptor); });
}

int ftruncate(int descriptor, off_t size) noexcept {
  REAL(ftruncate);
  return on_descriptor("ftruncate", descriptor, size, [&] { return real(descriptor, size); });
}

int ftruncate64(int descriptor, off64_t size) noexcept {
  REAL(ftruncate);
  return on_descriptor("ftruncate", descriptor, size, [&] { return real(descriptor, size); });
}

int close(int descriptor) {
  REAL(close);
  return on_descriptor("close", descriptor, 0, [&] {
    Faults::get().watch(descriptor, false);  // before another thread can get the same number
    return real(descriptor);
  });
}

int fclose(FILE* stream) {
  REAL(fclose);
  const int descriptor = ::fileno(stream);
  return on_descriptor("close", descriptor, 0, [&] {
    Faults::get().watch(descriptor, false);
    return real(stream);
  });
}

// Closed later, unseen.
DIR* fdopendir(int descriptor) {
  REAL(fdopendir);
  Faults::get().watch(descriptor, false);
  return real(descriptor);
}

int rename(const char* from, const char* to) noexcept {
  REAL(rename);
  return on_paths("rename", {AT_FDCWD, from}, {AT_FDCWD, to}, 0, [&] { return real(from, to); });
}

int renameat(int from_folder, const char* from, int to_folder, const char* to) noexcept {
  REAL(renameat);
  return on_paths("rename", {from_folder, from}, {to_folder, to}, 0, [&] { return real(from_folder, from, to_folder, to); });
}

int renameat2(int from_folder, const char* from, int to_folder, const char* to, unsigned flags) noexcept {
  REAL(renameat2);
  return on_paths("renameat2", {from_folder, from}, {to_folder, to}, flags,
                  [&] { return real(from_folder, from, to_folder, to, flags); });
}

int link(const char* from, const char* to) noexcept {
  REAL(link);
  return on_paths("link", {AT_FDCWD, from}, {AT_FDCWD, to}, 0, [&] { return real(from, to); });
}

int linkat(int from_folder, const char* from, int to_folder, const char* to, int flags) noexcept {
  REAL(linkat);
  return on_paths("link", {from_folder, from}, {to_folder, to}, 0, [&] { return real(from_folder, from, to_folder, to, flags); });
}

int symlink(const char* target, const char* path) noexcept {
  REAL(symlink);
  return on_path("symlink", AT_FDCWD, path, [&] { return real(target, path); });
}

int unlink(const char* path) noexcept {
  REAL(unlink);
  return on_path("unlink", AT_FDCWD, path, [&] { return real(path); });
}

int unlinkat(int folder, const char* path, int flags) noexcept {
  REAL(unlinkat);
  return on_path((flags & AT_REMOVEDIR) != 0 ? "rmdir" : "unlink", folder, path, [&] { return real(folder, path, flags); });
}

int rmdir(const char* path) noexcept {
  REAL(rmdir);
  return on_path("rmdir", AT_FDCWD, path, [&] { return real(path); });
}

int remove(const char* path) noexcept {
  REAL(remove);
  struct stat status {};
  const bool is_folder = ::lstat(path, &status) == 0 && S_ISDIR(status.st_mode);
  return on_path(is_folder ? "rmdir" : "unlink", AT_FDCWD, path, [&] { return real(path); });
}

int mkdir(const char* path, mode_t mode) noexcept {
  REAL(mkdir);
  return on_path("mkdir", AT_FDCWD, path, [&] { return real(path, mode); });
}

int mkdirat(int folder, const char* path, mode_t mode) noexcept {
  REAL(mkdirat);
  return on_path("mkdir", folder, path, [&] { return real(folder, path, mode); });
}

int truncate(const char* path, off_t size) noexcept {
  REAL(truncate);
  return on_path("truncate", AT_FDCWD, path, [&] { return real(path, size); });
}

int truncate64(const char* path, off64_t size) noexcept {
  REAL(truncate);
  return on_path("truncate", AT_FDCWD, path, [&] { return real(path, size); });
}

}  // extern "C"

// A library for LD_PRELOAD that counts a program's requests of one kind to the system, and refuses one of them:
//
// clang-format off
//   FAULT_RESOURCES        memory (malloc and its relatives), thread (pthread_create), file (open, fopen) or map (mmap); else nothing
//   FAULT_RESOURCES_AT     which one, from 1; 0: none
//   FAULT_RESOURCES_COUNT  a file for the number of requests, written at the end of each process
// clang-format on
//
// Requests inside the C library are not seen. Those of oneDNN, fontconfig, the C++ library's directory_iterator, and libraries
// being loaded (the CUDA runtime's constructors) are not refused, since each would crash any program.
#include <dlfcn.h>
#include <execinfo.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>

// dlsym() itself allocates.
extern "C" {
void* __libc_malloc(std::size_t bytes);                           // NOLINT(bugprone-reserved-identifier): the C library's names
void* __libc_calloc(std::size_t count, std::size_t bytes);        // NOLINT(bugprone-reserved-identifier)
void* __libc_realloc(void* memory, std::size_t bytes);            // NOLINT(bugprone-reserved-identifier)
void* __libc_memalign(std::size_t alignment, std::size_t bytes);  // NOLINT(bugprone-reserved-identifier)
}

namespace {

enum class Kind { none, memory, thread, file, map };

Kind watched = Kind::none;
long refused = 0;
std::atomic<long> count{0};

__attribute__((constructor)) void read_environment() {
  const char* const kind = std::getenv("FAULT_RESOURCES");
  const char* const at = std::getenv("FAULT_RESOURCES_AT");
  if (kind == nullptr) return;
  void* frame = nullptr;
  ::backtrace(&frame, 1);  // loads its dependencies
  refused = at == nullptr ? 0 : std::strtol(at, nullptr, 10);
  if (std::strcmp(kind, "memory") == 0) watched = Kind::memory;
  if (std::strcmp(kind, "thread") == 0) watched = Kind::thread;
  if (std::strcmp(kind, "file") == 0) watched = Kind::file;
  if (std::strcmp(kind, "map") == 0) watched = Kind::map;
}

__attribute__((destructor)) void write_count() {
  const char* const path = std::getenv("FAULT_RESOURCES_COUNT");
  if (path == nullptr || watched == Kind::none) return;
  watched = Kind::none;
  const int file = ::open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  char text[32];
  const int length = std::snprintf(text, sizeof text, "%ld\n", count.load());
  if (file < 0 || ::write(file, text, static_cast<std::size_t>(length)) != length) return;
  ::close(file);
}

// Whether a function on the stack belongs to one of them, since they also allocate through the C and C++ libraries.
bool crashes_without() {
  void* frames[64];
  const int depth = ::backtrace(frames, 64);
  for (int i = 0; i < depth; ++i) {
    Dl_info info{};
    if (::dladdr(frames[i], &info) == 0 || info.dli_fname == nullptr) continue;
    for (const char* const name : {"libdnnl", "libfontconfig", "ld-linux"}) {
      if (std::strstr(info.dli_fname, name) != nullptr) return true;
    }
    if (info.dli_sname != nullptr && std::strstr(info.dli_sname, "directory_iterator") != nullptr) return true;
  }
  return false;
}

bool refuses(Kind kind) { return kind == watched && ++count == refused && !crashes_without(); }

template <class Function>
Function* real(const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}

int no_file() {
  errno = EMFILE;
  return -1;
}

void* no_memory() {
  errno = ENOMEM;
  return nullptr;
}

mode_t mode_of(int flags, va_list arguments) {
  return (flags & (O_CREAT | O_TMPFILE)) != 0 ? static_cast<mode_t>(va_arg(arguments, int)) : 0;
}

}  // namespace

extern "C" {

void* malloc(std::size_t bytes) { return refuses(Kind::memory) ? no_memory() : __libc_malloc(bytes); }
void* calloc(std::size_t of, std::size_t bytes) { return refuses(Kind::memory) ? no_memory() : __libc_calloc(of, bytes); }
void* realloc(void* memory, std::size_t bytes) { return refuses(Kind::memory) ? no_memory() : __libc_realloc(memory, bytes); }
void* memalign(std::size_t alignment, std::size_t bytes) {
  return refuses(Kind::memory) ? no_memory() : __libc_memalign(alignment, bytes);
}
void* aligned_alloc(std::size_t alignment, std::size_t bytes) {
  return refuses(Kind::memory) ? no_memory() : __libc_memalign(alignment, bytes);
}
int posix_memalign(void** memory, std::size_t alignment, std::size_t bytes) {
  if (refuses(Kind::memory)) return ENOMEM;
  *memory = __libc_memalign(alignment, bytes);
  return *memory == nullptr ? ENOMEM : 0;
}

int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*start)(void*), void* argument) {
  if (refuses(Kind::thread)) return EAGAIN;
  static auto* const create = real<decltype(pthread_create)>("pthread_create");
  return create(thread, attributes, start, argument);
}

#define FAULT_OPEN(name)                                                    \
  int name(const char* path, int flags, ...) {                              \
    va_list arguments;                                                      \
    va_start(arguments, flags);                                             \
    const mode_t mode = mode_of(flags, arguments);                          \
    va_end(arguments);                                                      \
    static auto* const open_file = real<int(const char*, int, ...)>(#name); \
    return refuses(Kind::file) ? no_file() : open_file(path, flags, mode);  \
  }
FAULT_OPEN(open)
FAULT_OPEN(open64)

#define FAULT_OPENAT(name)                                                         \
  int name(int folder, const char* path, int flags, ...) {                         \
    va_list arguments;                                                             \
    va_start(arguments, flags);                                                    \
    const mode_t mode = mode_of(flags, arguments);                                 \
    va_end(arguments);                                                             \
    static auto* const open_file = real<int(int, const char*, int, ...)>(#name);   \
    return refuses(Kind::file) ? no_file() : open_file(folder, path, flags, mode); \
  }
FAULT_OPENAT(openat)
FAULT_OPENAT(openat64)

#define FAULT_FOPEN(name)                                                        \
  FILE* name(const char* path, const char* mode) {                               \
    static auto* const open_file = real<FILE*(const char*, const char*)>(#name); \
    return refuses(Kind::file) ? no_file(), nullptr : open_file(path, mode);     \
  }
FAULT_FOPEN(fopen)
FAULT_FOPEN(fopen64)

#define FAULT_MMAP(name, offset_type)                                                                     \
  void* name(void* address, std::size_t bytes, int protection, int flags, int file, offset_type offset) { \
    static auto* const map = real<void*(void*, std::size_t, int, int, int, offset_type)>(#name);          \
    if (refuses(Kind::map)) {                                                                             \
      errno = ENOMEM;                                                                                     \
      return MAP_FAILED;                                                                                  \
    }                                                                                                     \
    return map(address, bytes, protection, flags, file, offset);                                          \
  }
FAULT_MMAP(mmap, off_t)
FAULT_MMAP(mmap64, off64_t)

}  // extern "C"

#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "inspect.h"
#include "millrace/error.h"

extern char** environ;

namespace millrace {

namespace {

// A file that the destructor removes.
class TemporaryFile {
 public:
  explicit TemporaryFile(const std::string& text) : path_((std::filesystem::temp_directory_path() / "millrace-XXXXXX").string()) {
    const int handle = mkstemp(path_.data());
    if (handle < 0) fail(ErrorKind::run, "cannot make a file like '{}': {}", path_, std::strerror(errno));
    ::close(handle);
    std::ofstream file(path_);
    file << text << std::flush;
    if (file) return;
    ::unlink(path_.c_str());
    fail(ErrorKind::storage, "cannot write '{}': {}", path_, std::strerror(errno));
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  ~TemporaryFile() { ::unlink(path_.c_str()); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace

void write_svg(const std::string& dot, const std::string& file) {
  const TemporaryFile source(dot);
  std::array<std::string, 5> words = {"dot", "-Tsvg", "-o", file, source.path()};
  std::array<char*, 6> arguments{};
  for (std::size_t i = 0; i < words.size(); ++i) arguments[i] = words[i].data();
  pid_t child = 0;
  const int error = posix_spawnp(&child, "dot", nullptr, nullptr, arguments.data(), environ);
  if (error == ENOENT) {
    fail(ErrorKind::run, "Graphviz is not installed, so no picture can be drawn: apt-get install graphviz, or use --dot");
  }
  if (error != 0) fail(ErrorKind::run, "cannot start Graphviz (dot): {}", std::strerror(error));
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) fail(ErrorKind::run, "Graphviz (dot) could not write '{}'", file);
}

}  // namespace millrace

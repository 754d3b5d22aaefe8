#include <fcntl.h>
#include <unistd.h>

#include <cassert>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "base/json.h"
#include "millrace/error.h"
#include "network/safetensors.h"

namespace millrace {
namespace {

// A new file beside `path` that replaces it on commit() and is removed otherwise.
class Replacement {
 public:
  explicit Replacement(const std::string& path) : path_(path), temporary_(path + ".new-" + std::to_string(::getpid())) {
    file_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (file_ < 0) failed("create", temporary_);
  }
  Replacement(const Replacement&) = delete;
  Replacement& operator=(const Replacement&) = delete;
  ~Replacement() {
    if (file_ >= 0) ::close(file_);
    if (!committed_) ::unlink(temporary_.c_str());
  }

  void write(const void* data, std::size_t bytes) {
    const char* next = static_cast<const char*>(data);
    while (bytes > 0) {
      const ssize_t written = ::write(file_, next, bytes);
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) failed("write", temporary_);
      next += written;
      bytes -= static_cast<std::size_t>(written);
    }
  }

  void commit() {
    if (::fsync(file_) != 0) failed("write", temporary_);
    if (::close(std::exchange(file_, -1)) != 0) failed("write", temporary_);
    if (::rename(temporary_.c_str(), path_.c_str()) != 0) failed("replace", path_);
    committed_ = true;
    const std::string folder = std::filesystem::path(path_).parent_path().string();
    const int handle = ::open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (handle < 0) return;
    ::fsync(handle);  // the rename itself; a file system that cannot is no reason to fail
    ::close(handle);
  }

 private:
  [[noreturn]] static void failed(const char* what, const std::string& path) {
    fail(ErrorKind::storage, "cannot {} '{}': {}", what, path, std::strerror(errno));
  }

  std::string path_, temporary_;
  int file_ = -1;
  bool committed_ = false;
};

std::string header_text(const std::vector<NamedTensor>& tensors, const std::map<std::string, std::string>& metadata) {
  Json header = Json::object();
  if (!metadata.empty()) header["__metadata__"] = metadata;
  std::uint64_t offset = 0;
  for (const NamedTensor& tensor : tensors) {
    assert(tensor.name != "__metadata__" && !header.contains(tensor.name));
    assert(static_cast<std::int64_t>(tensor.values.size()) == tensor.shape.elements());
    const std::uint64_t end = offset + tensor.values.size() * sizeof(float);
    header[tensor.name] = {{"dtype", "F32"},
                           {"shape", std::vector<std::int64_t>(tensor.shape.begin(), tensor.shape.end())},
                           {"data_offsets", {offset, end}}};
    offset = end;
  }
  std::string text = header.dump();
  text.append((8 - text.size() % 8) % 8, ' ');  // the values then begin at a multiple of eight
  return text;
}

}  // namespace

void write_safetensors(const std::string& path, const std::vector<NamedTensor>& tensors,
                       const std::map<std::string, std::string>& metadata) {
  const std::string header = header_text(tensors, metadata);
  const std::uint64_t length = header.size();
  Replacement file(path);
  file.write(&length, sizeof length);
  file.write(header.data(), header.size());
  for (const NamedTensor& tensor : tensors) file.write(tensor.values.data(), tensor.values.size() * sizeof(float));
  file.commit();
}

}  // namespace millrace

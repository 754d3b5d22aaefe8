#include "checkpoint/checkpoint.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <iterator>
#include <memory>

#include "checkpoint/checkpoint_format.h"
#include "millrace/error.h"
#include "millrace/util/output_file.h"
#include "util/crc64.h"
#include "util/durable.h"
#include "util/folder_names.h"
#include "weights/safetensors.h"

namespace millrace {

namespace fs = std::filesystem;

namespace {

class FolderFile final : public Storage::Writer {
 public:
  explicit FolderFile(const fs::path& path) : file_(path.string()) {}
  void write(const void* data, std::size_t bytes) override { file_.write(data, bytes); }
  void commit() override { file_.commit(); }

 private:
  OutputFile file_;
};

class OpenFile {
 public:
  OpenFile(const fs::path& path, int flags) : handle_(::open(path.c_str(), flags | O_CLOEXEC)) {}
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;
  ~OpenFile() {
    if (handle_ >= 0) ::close(handle_);
  }
  int handle() const { return handle_; }

 private:
  const int handle_;
};

// Missing or damaged files are Error(data). Other errors, such as an unreachable server, do not show that a checkpoint is
// damaged.
ErrorKind kind_of(int error) {
  constexpr int kOfFile[] = {ENOENT, ENOTDIR, EISDIR, EIO, EUCLEAN, EBADMSG};
  return std::ranges::find(kOfFile, error) != std::end(kOfFile) ? ErrorKind::data : ErrorKind::storage;
}

// Reads from the disk instead of the page cache, where the system can.
void read_pieces(const fs::path& path, const std::function<void(const char* data, std::size_t bytes)>& take) {
  const std::string name = path.filename().string();
  if (is_special_file(path)) fail(ErrorKind::data, "'{}' is a pipe, socket or device, not a file", name);
  const OpenFile file(path, O_RDONLY);
  if (file.handle() < 0) fail(kind_of(errno), "'{}' cannot be opened: {}", name, std::strerror(errno));
  ::posix_fadvise(file.handle(), 0, 0, POSIX_FADV_DONTNEED);
  std::vector<char> piece(std::size_t{1} << 20);
  while (true) {
    const ssize_t count = ::read(file.handle(), piece.data(), piece.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail(kind_of(errno), "'{}' cannot be read: {}", name, std::strerror(errno));
    if (count == 0) return;
    take(piece.data(), static_cast<std::size_t>(count));
  }
}

FileSum sum_of(const fs::path& folder, const std::string& name) {
  Crc64 sum;
  FileSum found{name, 0, {}};
  read_pieces(folder / name, [&](const char* data, std::size_t bytes) {
    sum.add(data, bytes);
    found.bytes += bytes;
  });
  found.crc64 = sum.text();
  return found;
}

void move_folder(const fs::path& from, const fs::path& to) {
  std::error_code error;
  fs::rename(from, to, error);
  if (error) fail(ErrorKind::storage, "cannot rename '{}' to '{}': {}", from.string(), to.string(), error.message());
}

// Replaces a checkpoint of the same step. `latest` may name it, so the two names are exchanged atomically. File systems without
// such an exchange have a moment in which only `replaced` exists; newest_checkpoint() recognises that name.
void put_in_place(const fs::path& unfinished, const fs::path& path, const fs::path& replaced) {
  std::error_code ignored;
  if (!fs::exists(path, ignored)) return move_folder(unfinished, path);
  if (::renameat2(AT_FDCWD, unfinished.c_str(), AT_FDCWD, path.c_str(), RENAME_EXCHANGE) == 0) return;
  fs::remove_all(replaced, ignored);
  move_folder(path, replaced);
  try {
    move_folder(unfinished, path);
  } catch (...) {
    fs::rename(replaced, path, ignored);
    throw;
  }
}

std::string whole_text(const fs::path& path) {
  std::string text;
  read_pieces(path, [&](const char* data, std::size_t bytes) { text.append(data, bytes); });
  return text;
}

// Temporary name of a checkpoint that is being replaced.
fs::path replaced_name(const fs::path& folder, const std::string& name) { return folder / fmt::format(".{}.old", name); }

// Leftovers of a killed writer: "latest.new-1234" of an OutputFile, ".step-000000010.new", ".step-000000010.old".
bool is_unfinished(std::string_view name) {
  constexpr std::string_view kMark = ".new-";
  if (name.starts_with('.') && (name.ends_with(".new") || name.ends_with(".old"))) {
    return is_checkpoint_name(name.substr(1, name.rfind('.') - 1));
  }
  const std::size_t mark = name.rfind(kMark), number = mark + kMark.size();
  return mark != std::string_view::npos && number < name.size() &&
         name.find_first_not_of("0123456789", number) == std::string_view::npos;
}

}  // namespace

std::vector<std::string> checkpoint_names(const fs::path& folder) {
  std::vector<std::string> names = names_in(folder);
  std::erase_if(names, [](const std::string& name) { return !is_checkpoint_name(name); });
  std::ranges::sort(names, std::greater(), order_of_checkpoint);
  return names;
}

std::uint64_t write_checkpoint(const fs::path& folder, const Checkpoint& checkpoint) {
  const std::string name = checkpoint_name(checkpoint.state.step);
  const fs::path path = folder / name, unfinished = folder / fmt::format(".{}.new", name), replaced = replaced_name(folder, name);
  std::error_code ignored, error;
  fs::remove_all(unfinished, ignored);
  if (!fs::exists(folder, ignored)) make_folder(folder, error);  // for a rescue, or if the folder was moved away
  if (!error) fs::create_directory(unfinished, error);
  if (error) fail(ErrorKind::storage, "cannot make '{}': {}", unfinished.string(), error.message());
  std::uint64_t bytes = 0;
  try {
    const auto make = [&](const std::string& file) { return std::make_unique<FolderFile>(unfinished / file); };
    for (const FileSum& file : write_files(checkpoint, make)) {
      if (sum_of(unfinished, file.name) != file) {
        fail(ErrorKind::storage, "'{}' differs from what was written", (unfinished / file.name).string());
      }
      bytes += file.bytes;
    }
    put_in_place(unfinished, path, replaced);
  } catch (...) {
    fs::remove_all(unfinished, ignored);
    throw;
  }
  sync_folder(folder);  // before the replaced one is removed: until now the disk may hold either under this name
  for (const fs::path& left : {unfinished, replaced}) fs::remove_all(left, ignored);
  return bytes;
}

void point_to(const fs::path& folder, const std::string& pointer, const std::string& name) {
  OutputFile file((folder / pointer).string());
  file.write(name + "\n");
  file.commit();
}

std::string pointed_to(const fs::path& folder, const std::string& pointer) {
  const fs::path path = folder / pointer;
  std::error_code ignored;
  if (fs::status(path, ignored).type() == fs::file_type::not_found) return {};
  try {
    const std::string text = whole_text(path);
    return text.substr(0, text.find('\n'));
  } catch (Error& error) {
    throw error.in(fmt::format("'{}'", folder.string()));
  }
}

void tidy_checkpoints(const fs::path& folder, const std::string& name, std::size_t keep, const RetentionPeriod& period) {
  std::error_code ignored;
  for (const std::string& gone :
       checkpoints_to_remove(checkpoint_names(folder), name, pointed_to(folder, "best"), keep, period)) {
    fs::rename(folder / gone, replaced_name(folder, gone), ignored);  // so that a half-removed checkpoint never looks whole
  }
  remove_unfinished(folder, {});
}

void remove_unfinished(const fs::path& folder, const fs::path& used) {
  std::error_code ignored;
  for (const std::string& name : names_in(folder)) {
    if (folder / name != used && is_unfinished(name)) fs::remove_all(folder / name, ignored);
  }
}

Checkpoint read_checkpoint(const fs::path& path) {
  for (const FileSum& file : read_manifest(whole_text(path / kManifestFile))) check_sum(sum_of(path, file.name), file);
  return Checkpoint{.state = read_saved_state(whole_text(path / kStateFile)),
                    .tensors = read_safetensors((path / kTensorsFile).string()).tensors,
                    .pipeline = whole_text(path / kPipelineFile)};
}

std::optional<FoundCheckpoint> newest_checkpoint(const fs::path& folder, const std::function<void(std::string)>& warn) {
  std::vector<std::string> names = checkpoint_names(folder);
  const std::string latest = pointed_to(folder, "latest");
  const auto first = std::find(names.begin(), names.end(), latest);
  if (first != names.end()) {
    std::rotate(names.begin(), first, std::next(first));
  } else if (std::error_code ignored; is_checkpoint_name(latest) && fs::exists(replaced_name(folder, latest), ignored)) {
    names.insert(names.begin(), replaced_name(folder, latest).filename().string());
  } else if (!latest.empty()) {
    warn(lost_latest(folder.string(), latest));
  }
  return first_whole(
      names, folder, [&](const std::string& name) { return read_checkpoint(folder / name); }, warn);
}

std::string not_finite(const std::vector<NamedTensor>& tensors) {
  for (const NamedTensor& tensor : tensors) {
    if (!std::all_of(tensor.values.begin(), tensor.values.end(), [](float value) { return std::isfinite(value); }))
      return tensor.name;
  }
  return {};
}

}  // namespace millrace

#include "millrace/util/json_lines.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <utility>

#include "base/characters.h"
#include "base/json.h"
#include "base/secrets.h"
#include "files/durable.h"
#include "millrace/error.h"
#include "millrace/util/text.h"

namespace millrace {
namespace {

// Escapes characters that the library leaves but that could control a terminal, as JSON does: \u009b.
std::string without_controls(const std::string& quoted) {
  std::string out;
  for (std::string_view rest = quoted; !rest.empty();) {
    const Character character = first_character(rest);
    if (upsets_terminal(character.code)) {
      fmt::format_to(std::back_inserter(out), "\\u{:04x}", static_cast<unsigned>(character.code));
    } else {
      out += rest.substr(0, character.bytes);
    }
    rest.remove_prefix(character.bytes);
  }
  return out;
}

std::string dumped(const Json& value) { return value.dump(); }
std::string dumped(std::string_view text) { return without_controls(Json(utf8_text(text)).dump()); }

void cut_incomplete_line(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string text(std::istreambuf_iterator<char>(file), {});
  const std::size_t whole = text.rfind('\n') + 1;  // npos + 1 is 0
  std::error_code ignored;                         // a lost line does less harm than an ended run
  if (whole < text.size()) std::filesystem::resize_file(path, whole, ignored);
}

}  // namespace

JsonLine& JsonLine::append(std::string_view name, const std::string& value) {
  if (!members_.empty()) members_ += ',';
  members_ += dumped(name) + ":" + value;
  return *this;
}

JsonLine& JsonLine::add(std::string_view name, std::string_view value) {
  return append(name, dumped(std::string_view(without_secrets(std::string(value)))));
}
JsonLine& JsonLine::add(std::string_view name, double value) { return append(name, dumped(Json(value))); }
JsonLine& JsonLine::add(std::string_view name, const std::vector<std::string>& values) {
  std::string list;
  for (const std::string& each : values) list += (list.empty() ? "" : ",") + dumped(std::string_view(without_secrets(each)));
  return append(name, "[" + list + "]");
}
JsonLine& JsonLine::add(std::string_view name, bool value) { return append(name, value ? "true" : "false"); }

LineFile::LineFile(const std::string& path, Warn warn, bool append) : path_(path), warn_(std::move(warn)) {
  std::error_code ignored;
  const bool may_wait = append ? is_special_file(path) : std::filesystem::is_fifo(path, ignored);
  if (may_wait) fail(ErrorKind::run, "'{}' cannot be written: it is a pipe, socket or device, not a file; remove it", path_);
  if (append) cut_incomplete_line(path);
  file_ = ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | (append ? 0 : O_TRUNC), 0666);
  if (file_ < 0) fail(ErrorKind::run, "'{}' cannot be written: {}", path_, std::strerror(errno));
}

LineFile::~LineFile() {
  if (!waiting_.empty()) write_waiting();
  ::close(file_);
}

void LineFile::write(std::string_view line) {
  if (!waiting_.empty() && waiting_.size() + line.size() >= kMaxKept) {
    write_waiting();
    if (!waiting_.empty()) {
      ++lost_;
      return warn_once(warned_of_loss_, fmt::format("lines of '{}' are lost", path_));
    }
  }
  waiting_.append(line).append(1, '\n');
  write_waiting();
}

// Even if a write is cut short, the file keeps whole lines.
void LineFile::write_waiting() {
  if (whole_ >= 0 && !cut_torn_line()) return warn_once(warned_of_writing_, fmt::format("lines of '{}' wait in memory", path_));
  std::size_t taken = 0;
  int cause = 0;
  while (cause == 0 && taken < waiting_.size()) {
    const ssize_t written = ::write(file_, waiting_.data() + taken, waiting_.size() - taken);
    if (written > 0) taken += static_cast<std::size_t>(written);
    if (written <= 0 && errno != EINTR) cause = written == 0 ? EIO : errno;
  }
  if (taken > 0) is_synced_ = false;
  const std::size_t lines = taken == 0 ? 0 : waiting_.rfind('\n', taken - 1) + 1;  // npos + 1 is 0
  waiting_.erase(0, lines);
  if (cause == 0) return;
  struct stat now {};
  if (taken > lines && ::fstat(file_, &now) == 0 && S_ISREG(now.st_mode)) {
    whole_ = now.st_size - static_cast<std::int64_t>(taken - lines);
    cut_torn_line();
  }
  errno = cause;
  warn_once(warned_of_writing_, fmt::format("lines of '{}' wait in memory", path_));
}

// Call before appending more. Returns false, with errno set, if half a line stays for now.
bool LineFile::cut_torn_line() {
  if (::ftruncate(file_, whole_) != 0) return false;
  whole_ = -1;
  return true;
}

// A partially written line starts again in the new file.
void LineFile::follow_path() {
  if (is_still_at(file_, path_)) return;
  const std::string moved = fmt::format("'{}' was moved or removed", path_);
  const int made = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  if (made < 0) return warn_once(warned_of_moving_, moved + ", and cannot be created again: its lines are lost");
  ::close(file_);
  file_ = made;
  whole_ = -1;
  folder_is_synced_ = false;
  if (!std::exchange(warned_of_moving_, true)) warn_(moved + ": later lines go into a new file of this name");
}

// A name is safe once its folder is on disk, which happens with the first lines.
void LineFile::sync() {
  follow_path();
  if (!waiting_.empty()) write_waiting();
  if (lost_ > 0 || !waiting_.empty()) {
    errno = cause_;
    warn_once(warned_of_missing_, fmt::format("{} that a checkpoint counts as written", missing()));
  }
  if (is_synced_) return;
  is_synced_ = true;
  if (::fsync(file_) != 0 && errno != EINVAL && errno != ENOTSUP) {
    is_synced_ = false;
    return warn_once(warned_of_syncing_, fmt::format("'{}' may lose lines in a power failure", path_));
  }
  if (std::exchange(folder_is_synced_, true)) return;
  try {
    sync_folder(std::filesystem::path(path_).parent_path());
  } catch (const Error& error) {
    warn_(fmt::format("'{}' may be lost in a power failure: {}", path_, error.what()));
  }
}

void LineFile::finish() {
  if (!waiting_.empty()) write_waiting();
  if (lost_ > 0 || !waiting_.empty()) fail(ErrorKind::run, "{}: {}", missing(), std::strerror(cause_));
}

std::string LineFile::missing() const {
  const std::size_t lines = lost_ + static_cast<std::size_t>(std::count(waiting_.begin(), waiting_.end(), '\n'));
  return fmt::format("'{}' lacks {} line{}", path_, lines, lines == 1 ? "" : "s");
}

void LineFile::warn_once(bool& warned, const std::string& what) {
  cause_ = errno;
  if (std::exchange(warned, true)) return;
  warn_(fmt::format("{}: {}", what, std::strerror(errno)));
}

}  // namespace millrace

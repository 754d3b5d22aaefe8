#include "millrace/util/output_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <utility>

#include "base/characters.h"
#include "files/durable.h"
#include "millrace/error.h"
#include "millrace/stage.h"
#include "millrace/util/paths.h"
#include "millrace/util/text.h"

namespace millrace {
namespace {

constexpr std::size_t kBuffer = std::size_t{1} << 18;

// The nearest existing parent of a folder to be made.
std::filesystem::path nearest_folder(std::filesystem::path folder) {
  std::error_code ignored;
  while (!folder.empty() && folder.has_relative_path() && !std::filesystem::exists(folder, ignored))
    folder = folder.parent_path();
  return folder.empty() ? "." : folder;
}

// Permissions are not enough: even root cannot write to /proc or a read-only disk.
bool takes_files(const std::filesystem::path& folder) {
  std::string trial = (folder / ".new-XXXXXX").string();
  if (::mkdtemp(trial.data()) == nullptr) return false;
  ::rmdir(trial.c_str());
  return true;
}

}  // namespace

OutputFile::OutputFile(std::string path, Sync sync)
    : path_(std::move(path)), temporary_(path_ + ".new-" + std::to_string(::getpid())), sync_(sync) {
  std::error_code error;
  const std::filesystem::path folder = std::filesystem::path(path_).parent_path();
  if (!folder.empty()) std::filesystem::create_directories(folder, error);
  file_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0644);
  if (file_ < 0 && errno == ENOENT && error) {
    fail(ErrorKind::storage, "cannot create folder '{}': {}", folder.string(), error.message());
  }
  if (file_ < 0) failed("create", temporary_);
}

OutputFile::~OutputFile() {
  if (file_ >= 0) ::close(file_);
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

void OutputFile::failed(const char* what, const std::string& path) {
  fail(ErrorKind::storage, "cannot {} '{}': {}", what, path, std::strerror(errno));
}

void OutputFile::write(const void* data, std::size_t bytes) {
  if (buffer_.size() + bytes > kBuffer) flush();
  if (bytes > kBuffer) return write_through(static_cast<const char*>(data), bytes);
  buffer_.append(static_cast<const char*>(data), bytes);
}

void OutputFile::flush() {
  write_through(buffer_.data(), buffer_.size());
  buffer_.clear();
}

void OutputFile::write_through(const char* data, std::size_t bytes) {
  while (bytes > 0) {
    const ssize_t written = ::write(file_, data, bytes);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) failed("write", path_);
    data += written;
    bytes -= static_cast<std::size_t>(written);
  }
}

void OutputFile::write_at(std::uint64_t offset, std::string_view bytes) {
  flush();
  while (!bytes.empty()) {
    const ssize_t written = ::pwrite(file_, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) failed("write", path_);
    offset += static_cast<std::uint64_t>(written);
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
}

// The file gets its final name only when its bytes can no longer fail.
void OutputFile::seal() {
  if (file_ < 0) return;
  flush();
  if (sync_ == Sync::at_commit && ::fsync(file_) != 0) failed("write", path_);
  if (::close(std::exchange(file_, -1)) != 0) failed("write", path_);
}

void OutputFile::commit() {
  seal();
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) failed("write", path_);
  temporary_.clear();
  if (sync_ == Sync::at_commit) sync_folder(std::filesystem::path(path_).parent_path());
}

std::string OutputFile::keep() {
  flush();
  if (::close(std::exchange(file_, -1)) != 0) failed("write", path_);
  return std::exchange(temporary_, {});
}

void OutputFiles::attempt(const std::function<void()>& write) {
  if (!failure_.empty()) return;
  try {
    write();
  } catch (const Error& error) {
    if (site_ == nullptr || !site_->is_during_training || error.kind() != ErrorKind::storage) throw;
    failure_ = error.what();
  }
}

void OutputFiles::add(const std::string& path, std::string_view bytes) {
  add(path, [&](OutputFile& file) { file.write(bytes); });
}

void OutputFiles::add(const std::string& path, const std::function<void(OutputFile&)>& write) {
  attempt([&] {
    auto file = std::make_unique<OutputFile>(path);
    write(*file);
    file->seal();
    files_.push_back(std::move(file));
  });
}

void OutputFiles::commit() {
  attempt([this] {
    for (const auto& file : files_) file->commit();
  });
  files_.clear();
  if (failure_.empty()) return;
  site_->run->warn(fmt::format("the files of [{}] stay as they were until they can be written: {}", site_->graph, failure_));
  failure_.clear();
}

void sync_files(const std::string& folder) {
  const int file = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  const bool synced = file >= 0 && ::syncfs(file) == 0;
  const int error = errno;
  if (file >= 0) ::close(file);
  if (!synced) fail(ErrorKind::storage, "cannot write '{}': {}", folder, std::strerror(error));
}

std::string output_path(const StageSite& site, std::string_view key, const std::string& file) {
  std::filesystem::path path = local_path(key, file);
  if (path.is_relative()) {
    if (site.run == nullptr || site.run->output_folder().empty()) {
      fail(ErrorKind::usage,
           "{}: '{}' would be in the run's folder, but this run has none: write a path that begins with '/', or set run.folder",
           key, file);
    }
    path = std::filesystem::path(site.run->output_folder()) / path;
  }
  const std::filesystem::path folder = nearest_folder(path.parent_path());
  if (!std::filesystem::is_directory(folder) || !takes_files(folder)) {
    fail(ErrorKind::storage, "{}: cannot write '{}': nothing can be created in '{}'", key, path.string(), folder.string());
  }
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) {
    fail(ErrorKind::storage, "{}: cannot write '{}': it is a folder", key, path.string());
  }
  return path.string();
}

std::string output_folder(const StageSite& site, std::string_view key, const std::string& folder, std::string_view file) {
  const std::filesystem::path path = output_path(site, key, fmt::format("{}/{}", folder, file));
  // Programs of another machine may write there too, whose processes are unknown here.
  remove_abandoned_files(path.parent_path(), kOutputEndings, std::chrono::hours(1));
  return path.parent_path().string();
}

// Allocates nothing, since it runs for each sample.
void append_csv(std::string& line, std::string_view field) {
  const std::size_t begin = line.size();
  append_cell(line, field);
  if (line.find_first_of(",\"", begin) == std::string::npos) return;
  for (std::size_t quote = line.find('"', begin); quote != std::string::npos; quote = line.find('"', quote + 2))
    line.insert(quote, 1, '"');
  line.insert(begin, 1, '"');
  line += '"';
}

void append_json(std::string& line, std::string_view text) {
  if (!is_utf8(text)) return append_json(line, utf8_text(text));
  line += '"';
  while (!text.empty()) {
    const Character character = first_character(text);
    if (upsets_terminal(character.code)) {
      fmt::format_to(std::back_inserter(line), "\\u{:04x}", static_cast<unsigned>(character.code));
    } else {
      if (text.front() == '"' || text.front() == '\\') line += '\\';
      line += text.substr(0, character.bytes);
    }
    text.remove_prefix(character.bytes);
  }
  line += '"';
}

}  // namespace millrace

#include "weights/fetched_weights.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <filesystem>

#include "millrace/detail/random.h"
#include "millrace/error.h"
#include "millrace/sample.h"
#include "millrace/storage.h"
#include "millrace/util/bytes.h"
#include "millrace/util/cache_folder.h"
#include "millrace/util/output_file.h"
#include "millrace/util/paths.h"
#include "millrace/util/sha256.h"
#include "millrace/util/text.h"
#include "util/file_sum.h"
#include "util/memory_limit.h"
#include "util/secrets.h"

namespace millrace {

namespace fs = std::filesystem;

namespace {

constexpr std::size_t kFewestDigits = 8, kAllDigits = 64;  // digits of a SHA-256
constexpr std::size_t kLongestName = 100;                  // maximum name in the cache folder, after the hash

bool is_hex(char c) { return std::isxdigit(static_cast<unsigned char>(c)) != 0; }

std::string_view last_part(std::string_view url) {
  const std::string_view scheme = url_scheme(url);
  if (scheme == "http" || scheme == "https") url = url.substr(0, url.find_first_of("?#"));
  return url.substr(url.rfind('/') + 1);  // npos + 1 is 0
}

// Excludes other processes. Without locks in a file system, two processes may fetch the same file, which only costs time.
class FileLock {
 public:
  FileLock(const std::string& path, const std::function<void()>& waits) {
    std::error_code ignored;
    fs::create_directories(fs::path(path).parent_path(), ignored);
    file_ = open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    if (file_ < 0 || flock(file_, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) return;
    waits();
    while (flock(file_, LOCK_EX) != 0 && errno == EINTR) {
    }
  }
  ~FileLock() {
    if (file_ >= 0) close(file_);
  }
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;

 private:
  int file_ = -1;
};

class Fetch {
 public:
  Fetch(const WeightsRequest& request, const Registry& registry, const std::function<void(std::string)>& doing,
        const std::function<void(const std::string&)>& announce)
      : url_(request.weights), registry_(registry), doing_(doing), announce_(announce) {
    expected_ = request.sha256.empty() && is_remote(url_) ? hash_in_name(url_) : lower_case(request.sha256);
    who_ = request.sha256.empty() ? "its name requires" : "[network] sha256 requires";
  }

  std::string local() {
    const std::string path = file_url_path(url_);
    compare(sum_of(path));
    return path;
  }

  std::string remote() {
    Storage& storage = storage_of(registry_, url_);
    const std::string path = cached_weights(url_);
    const FileLock lock(path + ".lock",
                        [&] { doing_(fmt::format("waiting for another process that fetches the weights '{}'", url_)); });
    std::error_code ignored;
    if (fs::is_regular_file(path, ignored)) {
      if (is_expected(sum_of(path))) return path;  // else it is replaced if a good file arrives: the sum may be wrong
      doing_(fmt::format("'{}' has the wrong SHA-256, and is fetched again", path));
    }
    require_sha256();  // not only after a long wait
    doing_(fmt::format("fetching the weights '{}'", url_));
    if (announce_) announce(storage, path);
    ByteBuffer bytes;
    storage.read(url_, bytes);
    if (bytes.size() == 0) fail(ErrorKind::data, "'{}' is empty", url_);
    if (!expected_.empty()) compare(hex_text(sha256(bytes.data(), bytes.size())));
    OutputFile file(path);
    file.write(bytes.data(), bytes.size());
    file.commit();
    return path;
  }

 private:
  void announce(Storage& storage, const std::string& path) const {
    std::uint64_t size = 0;
    try {
      size = storage.stat(url_).bytes;
    } catch (const Error& error) {  // a server that does not say: reading reports what is wrong
      if (error.kind() == ErrorKind::unreachable) throw;
    }
    announce_(fmt::format("fetching the weights '{}'{}, once, into '{}'", without_secrets(url_),
                          size == 0 ? "" : fmt::format(", {}", bytes_text(size)), path));
  }

  void require_sha256() const {
    if (expected_.empty() || has_sha256()) return;
    fail(ErrorKind::usage, "'{}' must be checked, but this build of Millrace computes no SHA-256: it was made without OpenSSL",
         url_);
  }

  // Empty if there is nothing to compare with, or the file is unreadable, which its reader reports.
  std::string sum_of(const std::string& path) const {
    if (expected_.empty()) return {};
    require_sha256();
    doing_(fmt::format("computing the SHA-256 of '{}'", path));
    try {
      return sha256_of_file(path);
    } catch (const Error&) {
      return {};
    }
  }

  bool is_expected(const std::string& sum) const { return sum.empty() || sum.starts_with(expected_); }

  void compare(const std::string& sum) const {
    if (is_expected(sum)) return;
    fail(ErrorKind::data, "'{}' has the SHA-256 {}, and {} {}{}", url_, sum, who_, expected_,
         expected_.size() < kAllDigits ? "...; [network] sha256 = \"...\" overrides the name" : "");
  }

  const std::string& url_;
  const Registry& registry_;
  const std::function<void(std::string)>& doing_;
  const std::function<void(const std::string&)>& announce_;
  std::string expected_;  // the sum or its beginning; empty: any
  const char* who_ = "";
};

}  // namespace

bool is_remote(std::string_view weights) { return url_scheme(weights) != "file"; }

std::string hash_in_name(std::string_view url) {
  const std::string_view name = last_part(url);
  const std::size_t dash = name.rfind('-');
  if (dash == name.npos) return {};
  const std::string_view rest = name.substr(dash + 1);
  const auto end = std::ranges::find_if_not(rest, is_hex);
  const auto digits = static_cast<std::size_t>(end - rest.begin());
  if (end == rest.end() || *end != '.' || digits < kFewestDigits || digits > kAllDigits) return {};
  return lower_case(rest.substr(0, digits));
}

std::string cached_weights(const std::string& url) {
  const fs::path folder = cache_folder("weights");
  if (folder.empty()) {
    fail(ErrorKind::usage, "'{}': no folder to fetch it into: none of MILLRACE_CACHE, XDG_CACHE_HOME and HOME is set", url);
  }
  std::string name(last_part(url));
  if (name.size() > kLongestName) name.erase(0, name.size() - kLongestName);  // keeps the extension
  std::ranges::replace_if(
      name, [](unsigned char c) { return std::isalnum(c) == 0 && c != '.' && c != '-' && c != '_'; }, '_');
  return (folder / fmt::format("{:016x}-{}", hash_text(url), name)).string();
}

std::string local_weights(const WeightsRequest& request, const Registry& registry, const std::function<void(std::string)>& doing,
                          const std::function<void(const std::string&)>& announce) {
  Fetch fetch(request, registry, doing, announce);
  return is_remote(request.weights) ? fetch.remote() : fetch.local();
}

}  // namespace millrace

#include "parts.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "millrace/error.h"
#include "millrace/sample.h"

namespace millrace::s3 {

namespace {

[[noreturn]] void ends_before(const std::string& url, std::uint64_t total, std::uint64_t end) {
  fail(ErrorKind::storage, "cannot read '{}': it has {} bytes, and its bytes up to {} are asked for", url, total, end);
}

// Several requests can be matched to one version only by the ETag.
void require_etag(const std::string& url, const Part& first) {
  if (!first.etag.empty()) return;
  fail(ErrorKind::storage, "cannot read '{}': the server gives no ETag, so its parts might not belong together", url);
}

// Reads the bytes [offset, end) of an object that contains them, in parts, on several threads.
class ParallelRead {
 public:
  ParallelRead(Client& client, const std::string& url, std::string etag, std::uint64_t offset, std::uint64_t end,
               std::uint8_t* out)
      : client_(client), url_(url), etag_(std::move(etag)), offset_(offset), size_(end - offset), out_(out) {}

  void run() {
    const std::uint64_t part = client_.settings().part;
    const std::uint64_t parts = (size_ + part - 1) / part;
    const auto threads = static_cast<std::size_t>(std::min<std::uint64_t>(parts, client_.settings().parallel));
    {
      std::vector<std::jthread> helpers;
      for (std::size_t i = 1; i < threads; ++i) helpers.emplace_back([this] { work(); });
      work();
    }
    if (error_) throw Error(*error_);
  }

 private:
  void work() {
    const std::uint64_t part = client_.settings().part;
    while (!stop_.stop_requested()) {
      const std::uint64_t begin = next_.fetch_add(part);
      if (begin >= size_) return;
      try {
        read_part(begin, static_cast<std::size_t>(std::min(part, size_ - begin)));
      } catch (...) {
        const std::lock_guard lock(mutex_);
        if (!error_) error_ = current_error();
        stop_.request_stop();
      }
    }
  }

  void read_part(std::uint64_t begin, std::size_t size) {
    const auto room = [&](const Part& part) { return std::span(out_ + begin, part.bytes); };
    const Part part = client_.read(url_, offset_ + begin, size, etag_, room, stop_.get_token());
    if (part.bytes != size) ends_before(url_, part.total, offset_ + size_);
  }

  Client& client_;
  const std::string& url_;
  const std::string etag_;
  const std::uint64_t offset_, size_;
  std::uint8_t* const out_;
  std::atomic<std::uint64_t> next_{0};
  std::stop_source stop_;
  std::mutex mutex_;
  std::optional<Error> error_;  // the first one; guarded by mutex_
};

}  // namespace

Part read_whole(Client& client, const std::string& url, ByteBuffer& out) {
  const std::size_t size = client.settings().part;
  const auto room = [&](const Part& part) { return std::span(room_for_file(out, part.total), part.bytes); };
  const Part first = client.read(url, 0, size, "", room);
  if (first.total == 0) out.resize(0);
  if (first.bytes < first.total) {
    require_etag(url, first);
    ParallelRead(client, url, first.etag, first.bytes, first.total, out.data() + first.bytes).run();
  }
  return first;
}

Part read_range(Client& client, const std::string& url, std::uint64_t offset, std::size_t size, std::uint8_t* out) {
  const std::size_t wanted = std::min(size, client.settings().part);
  const auto room = [&](const Part& part) { return std::span(out, part.bytes); };
  const Part first = client.read(url, offset, wanted, "", room);
  if (first.total < offset + size) ends_before(url, first.total, offset + size);
  if (wanted == size) return first;
  require_etag(url, first);
  ParallelRead(client, url, first.etag, offset + wanted, offset + size, out + wanted).run();
  return first;
}

}  // namespace millrace::s3

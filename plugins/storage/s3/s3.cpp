#include "s3.h"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "millrace/error.h"
#include "millrace/util/text.h"
#include "upload.h"

namespace millrace::s3 {

namespace {

[[noreturn]] void ends_before(const std::string& url, std::uint64_t total, std::uint64_t end) {
  fail(ErrorKind::storage, "cannot read '{}': it has {} bytes, and its bytes up to {} were requested", url, total, end);
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

// All of an object. The first part's reply has its size; the others must be of the same version.
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

// Exactly these bytes; ErrorKind::storage if the object ends before.
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

constexpr int kMaxEmptyPages = 1000;  // in a row; a server without an end is broken

bool is_hidden(std::string_view name) { return name.starts_with('.') || name.find("/.") != name.npos; }

void require_key(const std::string& url) {
  const std::string key = parse_object_url(url).key;
  if (key.empty() || key.ends_with('/')) fail(ErrorKind::usage, "'{}': expected an object, s3://bucket/name", url);
}

// The prefix of the names of objects below a folder.
std::string prefix_of(const ObjectUrl& folder) {
  return folder.key.empty() || folder.key.ends_with('/') ? folder.key : folder.key + "/";
}

// Some tools create an object "folder/" to mark a folder. It is reported only if the folder has nothing else.
class FolderMarks {
 public:
  explicit FolderMarks(const std::function<void(Storage::Object)>& found) : found_(found) {}

  void pass(Storage::Object object) {
    if (!object.name.starts_with(mark_)) end();
    mark_.clear();
    if (object.name.ends_with('/')) {
      mark_ = std::move(object.name);
    } else {
      found_(std::move(object));
    }
  }

  void end() {
    if (!mark_.empty()) found_({mark_, 0, {}});
  }

 private:
  const std::function<void(Storage::Object)>& found_;
  std::string mark_;
};

}  // namespace

std::size_t S3::HashOfId::operator()(const ObjectId& id) const {
  std::size_t hash = 0;
  std::memcpy(&hash, id.data(), sizeof hash);  // they are hashes already
  return hash;
}

S3::S3(Environment environment) : environment_(std::move(environment)) {}
S3::~S3() = default;

S3::Open& S3::opened(const std::string& url) {
  const std::lock_guard lock(mutex_);
  if (open_) return *open_;
  auto open = std::make_unique<Open>();
  try {
    Settings settings = read_settings(environment_);
    if (!settings.cache.empty()) open->cache = std::make_unique<DiskCache>(settings.cache, settings.cache_size);
    open->client = std::make_unique<Client>(std::move(settings), environment_);
  } catch (Error& error) {
    throw error.in("'" + url + "'");
  }
  open_ = std::move(open);
  return *open_;
}

Storage::Kind S3::kind(const std::string& url) {
  const std::string key = parse_object_url(url).key;
  opened(url);
  return key.empty() || key.ends_with('/') ? Kind::folder : Kind::unknown;
}

void S3::walk(const std::string& url, bool one_level, const std::function<void(Object)>& found) {
  const ObjectUrl folder = parse_object_url(url);
  Open& open = opened(url);
  const std::string prefix = prefix_of(folder);
  std::string token, last;
  FolderMarks marks(found);
  int empty_pages = 0;
  do {
    ListPage page = open.client->list(url, folder.bucket, prefix, token, one_level);
    for (std::string& key : page.folders) page.objects.push_back({std::move(key), 0, {}});
    if (one_level) std::ranges::sort(page.objects, {}, &ListedObject::key);
    empty_pages = page.objects.empty() ? empty_pages + 1 : 0;
    if (empty_pages > kMaxEmptyPages) {
      fail(ErrorKind::storage, "cannot list '{}': the server sends one empty page after the other", url);
    }
    for (ListedObject& object : page.objects) {
      if (!object.key.starts_with(prefix) || object.key <= last) {
        fail(ErrorKind::storage, "cannot list '{}': the server names '{}' {}", url, shown(object.key),
             object.key.starts_with(prefix) ? "after '" + shown(last) + "'" : "which lies elsewhere");
      }
      const std::string name = object.key.substr(prefix.size());
      if (!name.empty() && !is_hidden(name)) {
        remember(open, {folder.bucket, object.key}, object.etag);
        marks.pass({name, object.bytes, std::move(object.etag)});
      }
      last = std::move(object.key);
    }
    token = std::move(page.next);
  } while (!token.empty());
  marks.end();
  if (last.empty()) fail(ErrorKind::data, "cannot list '{}': it contains no objects", url);
}

void S3::list(const std::string& url, const std::function<void(Object)>& found) { walk(url, false, found); }

void S3::list_names(const std::string& url, const std::function<void(Object)>& found) { walk(url, true, found); }

bool S3::is_empty(const std::string& url) {
  const ObjectUrl folder = parse_object_url(url);
  Client& client = *opened(url).client;
  std::string token;
  for (int page = 0; page < kMaxEmptyPages; ++page) {
    const ListPage found = client.list(url, folder.bucket, prefix_of(folder), token);
    if (!found.objects.empty()) return false;
    if (found.next.empty()) return true;
    token = found.next;
  }
  fail(ErrorKind::storage, "cannot list '{}': the server sends one empty page after the other", url);
}

std::unique_ptr<Storage::Writer> S3::write(const std::string& url) {
  require_key(url);
  Open& open = opened(url);
  return std::make_unique<Upload>(*open.client, url, [this, &open, object = parse_object_url(url)] { forget(open, object); });
}

void S3::remove(const std::string& url) {
  require_key(url);
  Open& open = opened(url);
  open.client->remove(url);
  forget(open, parse_object_url(url));
}

Storage::Object S3::stat(const std::string& url) {
  require_key(url);
  Open& open = opened(url);
  const Part part = open.client->stat(url);
  const std::string etag(unquoted(part.etag));
  remember(open, parse_object_url(url), etag);
  return {url.substr(url.rfind('/') + 1), part.total, etag};
}

void S3::read(const std::string& url, ByteBuffer& out) {
  require_key(url);
  Open& open = opened(url);
  if (open.cache) {
    const auto id = current(open, url);
    const auto room = [&](std::uint64_t bytes) { return std::span(out.resize(bytes), bytes); };
    if (id && open.cache->load(DiskCache::name_of(*id), room)) return;
  }
  const Part part = read_whole(*open.client, url, out);
  const auto id = remember(open, parse_object_url(url), std::string(unquoted(part.etag)));
  if (id) open.cache->store(DiskCache::name_of(*id), {out.data(), out.size()});
}

void S3::read(const std::string& url, std::uint64_t offset, std::size_t size, std::uint8_t* out) {
  require_key(url);
  if (size == 0) return;
  Open& open = opened(url);
  if (open.cache) {
    const auto id = current(open, url);
    const auto room = [&](std::uint64_t bytes) { return std::span(out, bytes == size ? size : 0); };
    if (id && open.cache->load(DiskCache::name_of(*id, offset, size), room)) return;
  }
  const Part part = read_range(*open.client, url, offset, size, out);
  const auto id = remember(open, parse_object_url(url), std::string(unquoted(part.etag)));
  if (id) open.cache->store(DiskCache::name_of(*id, offset, size), {out, size});
}

std::optional<ObjectId> S3::current(Open& open, const std::string& url) {
  const ObjectUrl object = parse_object_url(url);
  {
    const std::lock_guard lock(ids_mutex_);
    const auto known = ids_.find(object_id(open.client->http_url(object), ""));
    if (known != ids_.end()) return known->second;
  }
  return remember(open, object, std::string(unquoted(open.client->stat(url).etag)));
}

std::optional<ObjectId> S3::remember(Open& open, const ObjectUrl& object, const std::string& etag) {
  if (!open.cache || etag.empty()) return std::nullopt;
  const std::string http_url = open.client->http_url(object);
  const ObjectId id = object_id(http_url, etag);
  const std::lock_guard lock(ids_mutex_);
  ids_[object_id(http_url, "")] = id;
  return id;
}

// The object changes or disappears from now on.
void S3::forget(Open& open, const ObjectUrl& object) {
  const ObjectId id = object_id(open.client->http_url(object), "");
  const std::lock_guard lock(ids_mutex_);
  ids_.erase(id);
}

}  // namespace millrace::s3

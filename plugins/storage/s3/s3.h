#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <unordered_map>

#include "cache.h"
#include "client.h"
#include "millrace/sample.h"
#include "millrace/storage.h"
#include "millrace/util/lists_names.h"

namespace millrace::s3 {

// Objects of S3, and of servers that speak its language (MinIO, Ceph, Swift), named by s3://bucket/name.
//
//   [train.read]
//   path = "s3://my-bucket/cifar10/train"
//
// Settings come from the environment, at the first call:
//
//   AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN   or the profile AWS_PROFILE of AWS_SHARED_CREDENTIALS_FILE
//   AWS_REGION                                                    default us-east-1
//   AWS_ENDPOINT_URL                                              another server, "http://127.0.0.1:9000"; default: AWS
//   AWS_CA_BUNDLE                                                 certificates that https trusts; default: the system's
//   MILLRACE_S3_TIMEOUT, _CONNECT_TIMEOUT, _STALL_TIMEOUT         seconds for a request with all its attempts (120), for
//                                                                 connecting (5), below 1 kB/s until an attempt is dropped (20)
//   MILLRACE_S3_ATTEMPTS                                          for a request (10)
//   MILLRACE_S3_PART, MILLRACE_S3_PARALLEL                        larger reads are split into ranges of this size (16 MiB), with
//                                                                 this many at once (4); larger objects are
//                                                                 written in parts of this size, of 5 MiB at least
//   MILLRACE_S3_CACHE, MILLRACE_S3_CACHE_SIZE                     a folder, and its maximum size (10 GB); default: no cache
//
// Faults of the network and of the server (time-outs, resets, 5xx, throttling, short or wrong replies) are retried after a pause;
// refusals (403, 404, a wrong region) are not. One read never mixes two versions of an object.
// Cache: an object that this process listed, looked up or read before comes from there without a request, in that version; others
// are looked up first. It costs about 60 bytes of memory per listed object.
// Writing: see Upload.
// Threading: thread-safe; each active read uses its own connections, which later reads reuse.
class S3 : public Storage, public ListsNames {
 public:
  explicit S3(Environment environment = process_environment);
  ~S3() override;

  // Requires the credentials, so that missing ones are detected early; sends no request.
  Kind kind(const std::string& url) override;
  void list(const std::string& url, const std::function<void(Object)>& found) override;
  void list_names(const std::string& url, const std::function<void(Object)>& found) override;
  Object stat(const std::string& url) override;
  void read(const std::string& url, ByteBuffer& out) override;
  void read(const std::string& url, std::uint64_t offset, std::size_t size, std::uint8_t* out) override;
  std::unique_ptr<Writer> write(const std::string& url) override;
  void remove(const std::string& url) override;
  bool is_empty(const std::string& url) override;

 private:
  // State created at the first call.
  struct Open {
    std::unique_ptr<Client> client;
    std::unique_ptr<DiskCache> cache;  // null if none
  };
  Open& opened(const std::string& url);
  void walk(const std::string& url, bool one_level, const std::function<void(Object)>& found);

  // The cache's key of an object, remembered or looked up. Empty if the server sends no ETag.
  std::optional<ObjectId> current(Open& open, const std::string& url);
  std::optional<ObjectId> remember(Open& open, const ObjectUrl& object, const std::string& etag);
  void forget(Open& open, const ObjectUrl& object);

  Environment environment_;
  std::mutex mutex_;
  std::unique_ptr<Open> open_;  // guarded by mutex_ until set

  struct HashOfId {
    std::size_t operator()(const ObjectId& id) const;
  };
  std::mutex ids_mutex_;
  std::unordered_map<ObjectId, ObjectId, HashOfId> ids_;  // hash of the URL -> hash of URL and ETag; only with a cache
};

}  // namespace millrace::s3

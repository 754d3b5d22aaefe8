// Reads and writes objects by URL: one Storage for each URL scheme ("file", "s3", "https"). Sources read by URL and never open
// files themselves. A URL without "://" is a path of the scheme "file".
//
//   class Hello : public millrace::Storage {  // the URL hello://anything holds one object of five bytes
//    public:
//     void list(const std::string&, const std::function<void(Object)>& found) override { found(object()); }
//     Object stat(const std::string&) override { return object(); }
//     void read(const std::string&, millrace::ByteBuffer& out) override { std::memcpy(out.resize(5), "hello", 5); }
//     void read(const std::string& url, std::uint64_t offset, std::size_t size, std::uint8_t* out) override {
//       if (offset + size > 5) millrace::fail(millrace::ErrorKind::storage, "'{}' has 5 bytes", url);
//       std::memcpy(out, "hello" + offset, size);
//     }
//    private:
//     static Object object() { return {.name = "hello.txt", .bytes = 5, .version = "1"}; }
//   };
//   MILLRACE_PLUGIN("hello", "1.0", "Five bytes.") {
//     registry.add(millrace::StorageType{{"hello", "Five bytes."}, std::make_shared<Hello>()});
//   }
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace millrace {

class ByteBuffer;
class Error;
class Registry;

// Thread-safe. Every call may block, so call it only from Source::open() and Source::read(). The constructor is cheap:
// credentials and connections are set up at the first call.
//
// Errors: ErrorKind::usage for a URL that is none of the scheme's; ErrorKind::data for what does not exist or may not be read;
// ErrorKind::unreachable for a server that did not answer for longer than the retries, and ErrorKind::storage for any other
// fault. The message names the URL and the cause, which begins with the status of a server's reply: "': HTTP 404".
class Storage {
 public:
  virtual ~Storage() = default;

  struct Object {
    std::string name;  // relative to the listed folder, parts separated by '/'
    std::uint64_t bytes = 0;
    std::string version;       // changes with the content: a modification time, an ETag
    bool is_dangling = false;  // a broken link: reading it fails
    bool has_hidden = false;   // a folder that contains only names that are left out
  };

  enum class Kind { unknown, object, folder };

  // The kind of object at the URL, without waiting for a network; `unknown` if that takes a request. Throws ErrorKind::data with
  // the nearest name if nothing is there. Constructors call it.
  virtual Kind kind(const std::string&) { return Kind::unknown; }

  // Calls `found` on the caller's thread for each object below the folder `url`, at any depth, in bytewise order of names.
  // Includes empty folders, with a '/' at the end, and broken links. Leaves out names with a part that begins with '.', and in
  // file systems folders such as __MACOSX and lost+found.
  virtual void list(const std::string& url, const std::function<void(Object)>& found) = 0;

  // Like list(), without the objects and folders ("a/b") for which `leaves_out` returns true; such a folder need not be opened.
  virtual void list_without(const std::string& url, const std::function<bool(std::string_view name)>& leaves_out,
                            const std::function<void(Object)>& found);

  virtual Object stat(const std::string& url) = 0;                 // name: the URL's last part
  virtual void read(const std::string& url, ByteBuffer& out) = 0;  // the whole object; fewer bytes if it has shrunk since
  // Reads `size` bytes at `offset`. Throws ErrorKind::storage if the object ends before.
  virtual void read(const std::string& url, std::uint64_t offset, std::size_t size, std::uint8_t* out) = 0;

  // Writes an object atomically: it appears, complete, when commit() returns; until then readers see its previous version.
  // Without commit() nothing is left. Used by one thread. REQUIRES: once a call has thrown, only the destructor is called.
  class Writer {
   public:
    virtual ~Writer() = default;
    virtual void write(const void* data, std::size_t bytes) = 0;  // appends
    virtual void commit() = 0;
  };

  // By default these three throw ErrorKind::usage: the storage is read-only.
  virtual std::unique_ptr<Writer> write(const std::string& url);  // creates or replaces an object
  virtual void remove(const std::string& url);                    // an object; a missing one is not an error
  virtual bool is_empty(const std::string& url);  // the folder contains no object; where list() may throw ErrorKind::data
};

// The storage for the URL's scheme. Throws Error(usage), with the nearest scheme, if no plugin provides it.
Storage& storage_of(const Registry& registry, std::string_view url);

// Whether this error of a Storage means a missing object or file, for files that are optional. A bucket that
// refuses (HTTP 403) does not say so; a web server that refuses may have nothing to hide.
bool means_absent(const Error& error, std::string_view url);

std::string_view url_scheme(std::string_view url);                     // "s3" of "s3://bucket/key"; "file" where there is none
std::string join_url(std::string_view folder, std::string_view name);  // one '/' between them

}  // namespace millrace

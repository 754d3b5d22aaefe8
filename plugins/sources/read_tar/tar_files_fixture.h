// Hand-made archives, and a storage to read them from.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "millrace/plugin.h"
#include "millrace/storage.h"
#include "window.h"

namespace millrace::testing_tar {

// Writes the given content, valid or not.
class TarWriter {
 public:
  TarWriter& file(std::string_view name, std::string_view content) { return member(name, content, '0'); }
  TarWriter& member(std::string_view name, std::string_view content, char type);
  TarWriter& gnu_long(std::string_view name, std::string_view content);
  TarWriter& pax(std::string_view records, char type = 'x') { return member("PaxHeaders/x", records, type); }
  TarWriter& raw(std::string_view bytes);
  TarWriter& end();  // two blocks of zeros

  // The last member's header, for changes; seal() then rewrites its checksum.
  char* header() { return bytes_.data() + header_; }
  TarWriter& seal();

  const std::string& bytes() const { return bytes_; }
  std::uint64_t here() const { return bytes_.size(); }

 private:
  std::string bytes_;
  std::size_t header_ = 0;
};

std::string pax_record(const std::string& key, const std::string& value);  // with its length before it

// A window over bytes in memory; counts what it fetches.
class MemoryWindow : public Window {
 public:
  explicit MemoryWindow(std::string bytes);
  std::size_t fetches() const { return *fetches_; }
  std::size_t fetched() const { return *fetched_; }

 private:
  explicit MemoryWindow(std::shared_ptr<std::string> bytes, std::shared_ptr<std::size_t> fetches,
                        std::shared_ptr<std::size_t> fetched);
  std::shared_ptr<std::size_t> fetches_, fetched_;
};

// A separate folder for each test, removed by the destructor. It also contains the index cache.
class Folder {
 public:
  Folder();
  ~Folder();
  const std::filesystem::path& path() const { return path_; }
  std::string operator/(const std::string& name) const { return (path_ / name).string(); }
  std::string write(const std::string& name, const std::string& bytes) const;  // its path
  std::vector<std::string> names() const;                                      // of all files, sorted

 private:
  std::filesystem::path path_;
};

// The scheme "file", in its simplest form. Counts the bytes that it read from archives.
class LocalFiles : public Storage {
 public:
  Kind kind(const std::string& url) override;
  void list(const std::string& url, const std::function<void(Object)>& found) override;
  Object stat(const std::string& url) override;
  void read(const std::string& url, ByteBuffer& out) override;
  void read(const std::string& url, std::uint64_t offset, std::size_t size, std::uint8_t* out) override;

  std::atomic<std::uint64_t> read_bytes{0};
};

}  // namespace millrace::testing_tar

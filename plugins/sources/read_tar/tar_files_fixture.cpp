#include "tar_files_fixture.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>

#include "millrace/error.h"

namespace millrace::testing_tar {

namespace fs = std::filesystem;

TarWriter& TarWriter::member(std::string_view name, std::string_view content, char type) {
  header_ = bytes_.size();
  bytes_.append(512, '\0');
  std::memcpy(header(), name.data(), std::min<std::size_t>(name.size(), 100));
  std::memcpy(header() + 100, "0000644", 7);
  std::memcpy(header() + 124, fmt::format("{:011o}", content.size()).data(), 11);
  std::memcpy(header() + 257, "ustar\00000", 8);
  header()[156] = type;
  seal();
  return raw(content).raw(std::string((512 - content.size() % 512) % 512, '\0'));
}

TarWriter& TarWriter::gnu_long(std::string_view name, std::string_view content) {
  member("././@LongLink", std::string(name) + '\0', 'L');
  return file(name.substr(0, 100), content);
}

TarWriter& TarWriter::raw(std::string_view bytes) {
  bytes_ += bytes;
  return *this;
}

TarWriter& TarWriter::end() { return raw(std::string(1024, '\0')); }

TarWriter& TarWriter::seal() {
  std::memset(header() + 148, ' ', 8);
  unsigned sum = 0;
  for (int i = 0; i < 512; ++i) sum += static_cast<unsigned char>(header()[i]);
  std::memcpy(header() + 148, fmt::format("{:06o}", sum).c_str(), 7);
  return *this;
}

std::string pax_record(const std::string& key, const std::string& value) {
  const std::string rest = " " + key + "=" + value + "\n";
  std::size_t length = rest.size() + 1;
  while (std::to_string(length).size() + rest.size() != length) ++length;
  return std::to_string(length) + rest;
}

MemoryWindow::MemoryWindow(std::string bytes)
    : MemoryWindow(std::make_shared<std::string>(std::move(bytes)), std::make_shared<std::size_t>(0),
                   std::make_shared<std::size_t>(0)) {}

MemoryWindow::MemoryWindow(std::shared_ptr<std::string> bytes, std::shared_ptr<std::size_t> fetches,
                           std::shared_ptr<std::size_t> fetched)
    : Window(
          [=](std::uint64_t offset, std::size_t size, std::uint8_t* out) {
            ++*fetches;
            *fetched += size;
            std::memcpy(out, bytes->data() + offset, size);
          },
          bytes->size()),
      fetches_(fetches),
      fetched_(fetched) {}

Folder::Folder() {
  const testing::TestInfo* test = testing::UnitTest::GetInstance()->current_test_info();
  path_ =
      fs::path(testing::TempDir()) / fmt::format("millrace_read_tar_{}_{}_{}", getpid(), test->test_suite_name(), test->name());
  fs::remove_all(path_);  // from a killed test
  fs::create_directories(path_);
  unsetenv("MILLRACE_CACHE");
  setenv("XDG_CACHE_HOME", (path_ / "cache").c_str(), 1);
}

Folder::~Folder() { fs::remove_all(path_); }

std::string Folder::write(const std::string& name, const std::string& bytes) const {
  fs::create_directories((path_ / name).parent_path());
  std::ofstream(path_ / name, std::ios::binary) << bytes;
  return (path_ / name).string();
}

std::vector<std::string> Folder::names() const {
  std::vector<std::string> names;
  for (const auto& entry : fs::recursive_directory_iterator(path_)) {
    if (entry.is_regular_file()) names.push_back(fs::relative(entry.path(), path_).string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

Storage::Kind LocalFiles::kind(const std::string& url) {
  if (!fs::exists(url)) fail(ErrorKind::data, "'{}' does not exist", url);
  return fs::is_directory(url) ? Kind::folder : Kind::object;
}

void LocalFiles::list(const std::string& url, const std::function<void(Object)>& found) {
  if (!fs::is_directory(url)) fail(ErrorKind::data, "'{}' is no folder", url);
  std::map<std::string, Object> objects;
  for (const auto& entry : fs::recursive_directory_iterator(url)) {
    const std::string name = fs::relative(entry.path(), url).string();
    if (!entry.is_regular_file() || name.front() == '.' || name.find("/.") != name.npos) continue;
    objects[name] = stat(entry.path().string());
    objects[name].name = name;
  }
  for (auto& [name, object] : objects) found(std::move(object));
}

Storage::Object LocalFiles::stat(const std::string& url) {
  if (!fs::is_regular_file(url)) fail(ErrorKind::data, "'{}' does not exist", url);
  return {fs::path(url).filename(), fs::file_size(url), std::to_string(fs::last_write_time(url).time_since_epoch().count())};
}

void LocalFiles::read(const std::string& url, ByteBuffer& out) {
  const auto size = static_cast<std::size_t>(stat(url).bytes);
  read(url, 0, size, out.resize(size));
}

void LocalFiles::read(const std::string& url, std::uint64_t offset, std::size_t size, std::uint8_t* out) {
  std::ifstream file(url, std::ios::binary);
  file.seekg(static_cast<std::streamoff>(offset));
  if (!file.read(reinterpret_cast<char*>(out), static_cast<std::streamsize>(size))) {
    fail(ErrorKind::storage, "'{}' ends before byte {}", url, offset + size);
  }
  if (url.ends_with(".tar")) read_bytes += size;
}

}  // namespace millrace::testing_tar

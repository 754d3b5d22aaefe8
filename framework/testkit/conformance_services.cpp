// Requirements of storages. Only storages of local files are checked.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <iterator>

#include "millrace/error.h"
#include "millrace/storage.h"
#include "testkit/conformance.h"
#include "testkit/conformance_stage.h"
#include "testkit/synthetic.h"

namespace millrace::conformance {
namespace {

namespace fs = std::filesystem;

// A local storage, and the URL of image_folder() there.
class LocalStorage {
 public:
  LocalStorage(const Registry& registry, const std::string& scheme, Report& report)
      : type_(*registry.storages().find(scheme)), folder_(fmt::format("{}://{}", scheme, image_folder().string())) {
    try {
      is_local_ = type_.storage->kind(folder_) != Storage::Kind::unknown;
      if (!is_local_) report.not_applicable("kind() does not know folders of this machine, and no network is asked");
    } catch (const Error& error) {
      report.not_applicable(fmt::format("it knows no folder of this machine: {}", error.what()));
    }
  }
  explicit operator bool() const { return is_local_; }
  Storage& operator*() const { return *type_.storage; }
  Storage* operator->() const { return type_.storage.get(); }
  const std::string& folder() const { return folder_; }
  std::string url(const std::string& name) const { return join_url(folder_, name); }

 private:
  const StorageType& type_;
  const std::string folder_;
  bool is_local_ = false;
};

// The files of image_folder(), in bytewise order.
std::vector<std::string> names_of_files() {
  std::vector<std::string> names;
  for (const auto& entry : fs::recursive_directory_iterator(image_folder())) {
    if (entry.is_regular_file()) names.push_back(fs::relative(entry.path(), image_folder()).generic_string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::string bytes_of_file(const std::string& name) {
  std::ifstream file(image_folder() / name, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::string read_whole(Storage& storage, const std::string& url) {
  ByteBuffer buffer;
  storage.read(url, buffer);
  return {reinterpret_cast<const char*>(buffer.data()), buffer.size()};
}

std::string read_part(Storage& storage, const std::string& url, std::size_t offset, std::size_t size) {
  std::string part(size + 1, '#');
  storage.read(url, offset, size, reinterpret_cast<std::uint8_t*>(part.data()));
  if (part.back() != '#') fail(ErrorKind::run, "it writes after the {} bytes that were asked for", size);
  part.pop_back();
  return part;
}

void storage_description(const Registry& registry, const std::string& scheme, Report& report) {
  const StorageType& type = *registry.storages().find(scheme);
  check_description(type.name, type.text, type.plugin, {}, report);
  report.expect(type.storage != nullptr, "it has no storage");
}

void storage_listing(const Registry& registry, const std::string& scheme, Report& report) {
  const LocalStorage storage(registry, scheme, report);
  if (!storage) return;
  std::vector<std::string> found;
  storage->list(storage.folder(), [&](const Storage::Object& object) {
    found.push_back(object.name);
    const std::size_t size = bytes_of_file(object.name).size();
    report.expect(object.bytes == size, fmt::format("it lists '{}' with {} bytes of {}", object.name, object.bytes, size));
  });
  const std::vector<std::string> expected = names_of_files();
  report.expect(found == expected,
                fmt::format("it lists '{}', and in bytewise order there are '{}'", fmt::join(found.begin(), found.end(), "', '"),
                            fmt::join(expected.begin(), expected.end(), "', '")));
}

void storage_reading(const Registry& registry, const std::string& scheme, Report& report) {
  const LocalStorage storage(registry, scheme, report);
  if (!storage) return;
  for (const std::string& name : names_of_files()) {
    const std::string url = storage.url(name), bytes = bytes_of_file(name);
    const Storage::Object object = storage->stat(url);
    report.expect(object.bytes == bytes.size() && object.name == fs::path(name).filename().string(),
                  fmt::format("stat() of '{}' says '{}' with {} bytes of {}", url, object.name, object.bytes, bytes.size()));
    report.expect(storage->kind(url) == Storage::Kind::object, fmt::format("kind() does not say that '{}' is an object", url));
    report.expect(read_whole(*storage, url) == bytes, fmt::format("the whole of '{}' is not what was written", url));
    for (const std::size_t offset : {std::size_t{0}, std::size_t{1}, bytes.size() / 2, bytes.size() - 1, bytes.size()}) {
      for (const std::size_t size : {std::size_t{0}, std::size_t{1}, bytes.size() - offset}) {
        if (offset + size > bytes.size()) continue;
        report.expect(read_part(*storage, url, offset, size) == bytes.substr(offset, size),
                      fmt::format("{} bytes from byte {} on are not those of the whole", size, offset));
      }
    }
  }
}

// Expects the call to throw an Error of this kind that names the URL's path.
void expect_refusal(const char* what, const std::string& url, ErrorKind kind, const std::function<void()>& call, Report& report) {
  try {
    call();
    report.add(fmt::format("{} is not refused: '{}'", what, url));
  } catch (const Error& error) {
    const std::string path = url.substr(url.find("://") + 3), said = error.what();
    report.expect(error.kind() == kind, fmt::format("{} is an error of kind {}, expected {}: {}", what, to_string(error.kind()),
                                                    to_string(kind), said));
    report.expect(said.find(path) != std::string::npos, fmt::format("{}: the message does not name '{}': {}", what, path, said));
  }
}

void storage_refusals(const Registry& registry, const std::string& scheme, Report& report) {
  const LocalStorage storage(registry, scheme, report);
  if (!storage) return;
  const std::string missing = storage.url("no_such_file.jpg"), name = names_of_files().front(), url = storage.url(name);
  const std::size_t size = bytes_of_file(name).size();
  std::vector<std::uint8_t> room(size + 1);
  ByteBuffer buffer;
  const auto refuses = [&](const char* what, const std::string& of, ErrorKind kind, const std::function<void()>& call) {
    expect_refusal(what, of, kind, call, report);
  };
  refuses("kind() at what is not there", missing, ErrorKind::data, [&] { storage->kind(missing); });
  refuses("stat() of what is not there", missing, ErrorKind::data, [&] { storage->stat(missing); });
  refuses("reading what is not there", missing, ErrorKind::data, [&] { storage->read(missing, buffer); });
  refuses("reading a part of what is not there", missing, ErrorKind::data, [&] { storage->read(missing, 0, 1, room.data()); });
  refuses("listing what is not there", missing, ErrorKind::data, [&] { storage->list(missing, [](const auto&) {}); });
  refuses("reading over the end", url, ErrorKind::storage, [&] { storage->read(url, 0, size + 1, room.data()); });
  refuses("reading after the end", url, ErrorKind::storage, [&] { storage->read(url, size + 1, 1, room.data()); });
}

void storage_threads(const Registry& registry, const std::string& scheme, Report& report) {
  const LocalStorage storage(registry, scheme, report);
  if (!storage) return;
  const std::vector<std::string> names = names_of_files();
  std::vector<std::string> contents;
  for (const std::string& name : names) contents.push_back(bytes_of_file(name));
  const auto read_on = [&](unsigned thread) {
    Jitter jitter(thread);
    for (int round = 0; round < 100; ++round) {
      const std::size_t i = jitter.below(static_cast<std::uint32_t>(names.size()));
      const std::string url = storage.url(names[i]);
      const std::size_t offset = jitter.below(static_cast<std::uint32_t>(contents[i].size()));
      const bool same = round % 2 == 0
                            ? read_whole(*storage, url) == contents[i]
                            : read_part(*storage, url, offset, contents[i].size() - offset) == contents[i].substr(offset);
      if (!same) fail(ErrorKind::run, "'{}' is read differently while other threads read", url);
      jitter.pause();
    }
  };
  on_threads(read_on, report);
}

constexpr Check kServiceChecks[] = {{"storage", "description", storage_description},
                                    {"storage", "listing", storage_listing},
                                    {"storage", "reading", storage_reading},
                                    {"storage", "refusals", storage_refusals},
                                    {"storage", "thread safety", storage_threads}};

}  // namespace

std::span<const Check> service_checks() { return kServiceChecks; }

}  // namespace millrace::conformance
